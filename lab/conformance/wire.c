#include "lab/conformance/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/conformance/control.h"
#include "lab/conformance/report.h"
#include "lab/conformance/wire_case.h"

// Of the control protocol: both sides must speak the same.
static const char greeting[] = "verbena-conformance 1";
static const char default_address[] = "127.0.0.1:18600";

enum { mtu_min = 256, mtu_max = 4096 };

static int mtu_bytes(enum ibv_mtu mtu) { return 128 << mtu; }

// The greatest MTU of the specification that isn't above.
static enum ibv_mtu mtu_of(int bytes) {
  enum ibv_mtu mtu = IBV_MTU_256;
  while (mtu < IBV_MTU_4096 && mtu_bytes((enum ibv_mtu)(mtu + 1)) <= bytes) {
    ++mtu;
  }
  return mtu;
}

static int greet(struct control* control, const struct device* device) {
  return tell(control, "%s %d", greeting, mtu_bytes(device->port.active_mtu));
}

// The MTU of the peer's port; 0 if it isn't one of us.
static int hear_greeting(struct control* control) {
  char line[line_bytes_max];
  if (!hear(control, line) || strncmp(line, greeting, sizeof greeting - 1) != 0) {
    return 0;
  }
  return atoi(line + sizeof greeting - 1);
}

// --- Agent

// "case OPERATION SIZE MTU WHO", where WHO initiates: 1 for the agent.
static int obey(struct device* device, struct control* control, const char* line) {
  int index = 0, mtu = 0, is_initiator = 0;
  unsigned bytes = 0;
  if (sscanf(line, "case %d %u %d %d", &index, &bytes, &mtu, &is_initiator) != 4 || index < 0 ||
      index >= wire_operation_count || bytes > wire_bytes_max || mtu < mtu_min || mtu > mtu_max) {
    return 0;
  }
  const struct wire_case what = {&wire_operations[index], bytes, mtu_of(mtu), is_initiator != 0};
  char outcome[outcome_bytes_max];
  return run_wire_case(device, &what, control, outcome) && tell(control, "%s", outcome);
}

// Returns 0 if who connected is no master.
static int serve(struct device* device, struct control* control) {
  char line[line_bytes_max];
  if (!greet(control, device) || hear_greeting(control) == 0) {
    return 0;
  }
  while (hear(control, line) && obey(device, control, line)) {
  }
  return 1;
}

int run_agent(const struct wire_options* options) {
  struct device device;
  open_device(&device, options->device, options->ip_version);
  const int listener = listen_at(options->address != NULL ? options->address : default_address);
  int served = 0;
  while (!served || !options->once) {
    struct control control;
    if (!accept_from(listener, &control)) {
      continue;
    }
    served = serve(&device, &control);
    close_control(&control);
  }
  return 0;
}

// --- Master

static int is_unsupported(const char* outcome) { return strncmp(outcome, "unsupported", 11) == 0; }

// One side may have failed only because the other one did.
static int is_consequence(const char* outcome) { return strcmp(outcome, "not begun") == 0; }

static void print_result(const struct wire_case* what, const char* ours, const char* theirs) {
  const int agrees = strcmp(ours, "ok") == 0 && strcmp(theirs, "ok") == 0;
  const int unsupported = is_unsupported(ours) || is_unsupported(theirs);
  const char* result = agrees ? "agrees" : unsupported ? "unsupported" : "differs";
  char words[2 * line_bytes_max] = "";
  if (!agrees) {
    const int ours_matters = strcmp(ours, "ok") != 0 && !is_consequence(ours);
    const int theirs_matters = strcmp(theirs, "ok") != 0 && !is_consequence(theirs);
    const int length =
        ours_matters ? snprintf(words, sizeof words, "ours: %.*s", outcome_bytes_max, ours) : 0;
    if (theirs_matters) {
      snprintf(words + length, sizeof words - (size_t)length, "%stheirs: %.*s",
               length != 0 ? "; " : "", outcome_bytes_max, theirs);
    }
  }
  printf(
      "{\"operation\": \"%s\", \"size\": %u, \"mtu\": %d, \"initiator\": \"%s\", \"result\": "
      "\"%s\", ",
      what->operation->name, what->bytes, mtu_bytes(what->mtu),
      what->is_initiator ? "ours" : "theirs", result);
  printf("\"words\": ");
  print_json_string(stdout, words);
  printf("}\n");
  fflush(stdout);
}

static int run_one(struct device* device, struct control* control, int index, uint32_t bytes,
                   enum ibv_mtu mtu, int is_initiator) {
  const struct wire_case what = {&wire_operations[index], bytes, mtu, is_initiator};
  char ours[outcome_bytes_max], theirs[line_bytes_max];
  if (!tell(control, "case %d %u %d %d", index, bytes, mtu_bytes(mtu), !is_initiator) ||
      !run_wire_case(device, &what, control, ours) || !hear(control, theirs)) {
    fprintf(stderr, "conformance: the agent is gone, at %s, %u bytes\n", what.operation->name,
            bytes);
    return 0;
  }
  theirs[outcome_bytes_max - 1] = '\0';
  print_result(&what, ours, theirs);
  return 1;
}

// The sizes of an operation: around the borders of packets, and two long ones.
static int sizes_of(const struct wire_operation* operation, uint32_t mtu, uint32_t sizes[7]) {
  if (operation->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
      operation->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    sizes[0] = sizeof(uint64_t);
    return 1;
  }
  const uint32_t all[7] = {0, 1, mtu - 1, mtu, mtu + 1, 65536, wire_bytes_max};
  memcpy(sizes, all, sizeof all);
  // A datagram is one packet. Of the other unreliable one a mebibyte rarely arrives whole.
  return operation->type == IBV_QPT_UD ? 4 : operation->type == IBV_QPT_UC ? 6 : 7;
}

static int run_all(struct device* device, struct control* control, enum ibv_mtu mtu,
                   const char* only) {
  for (int index = 0; index < wire_operation_count; ++index) {
    if (only != NULL && strstr(wire_operations[index].name, only) == NULL) {
      continue;
    }
    uint32_t sizes[7];
    const int count = sizes_of(&wire_operations[index], (uint32_t)mtu_bytes(mtu), sizes);
    for (int i = 0; i < count; ++i) {
      if (!run_one(device, control, index, sizes[i], mtu, 1) ||
          !run_one(device, control, index, sizes[i], mtu, 0)) {
        return 0;
      }
    }
  }
  return 1;
}

int run_master(const struct wire_options* options) {
  struct device device;
  open_device(&device, options->device, options->ip_version);
  struct control connection, *control = &connection;
  if (!connect_to(options->address, control)) {
    fprintf(stderr, "conformance: no agent at %s\n", options->address);
    return 1;
  }
  const int theirs = hear_greeting(control);
  if (theirs < mtu_min || !greet(control, &device)) {
    fprintf(stderr, "conformance: who listens at %s is no agent of this version\n",
            options->address);
    return 1;
  }
  const int ours = mtu_bytes(device.port.active_mtu);
  int mtu = options->mtu != 0 ? options->mtu : mtu_max;
  if (theirs < mtu) {
    mtu = theirs;
  }
  if (ours < mtu) {
    mtu = ours;
  }
  const int done = run_all(&device, control, mtu_of(mtu), options->only);
  close_control(control);
  return done ? 0 : 1;
}
