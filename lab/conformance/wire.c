#include "lab/conformance/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lab/conformance/connection.h"
#include "lab/conformance/control.h"
#include "lab/conformance/report.h"
#include "lab/conformance/server.h"
#include "lab/conformance/wire_case.h"

// Of the control protocol: both sides must speak the same.
static const char same_address[] = "-";
static const char greeting[] = "verbena-conformance 3";

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

// "GREETING MTU GID": of the port.
static int greet(struct control* control, const struct device* device) {
  char gid[gid_text_bytes];
  write_gid(gid, &device->gid);
  return tell(control, "%s %d %s", greeting, mtu_bytes(device->port.active_mtu), gid);
}

// The MTU of the peer's port; 0 if it isn't one of us.
static int hear_greeting(struct control* control, struct partner* partner) {
  char line[line_bytes_max], gid[gid_text_bytes];
  int mtu = 0;
  if (!hear(control, line) || strncmp(line, greeting, sizeof greeting - 1) != 0 ||
      sscanf(line + sizeof greeting - 1, " %d %32s", &mtu, gid) != 2 ||
      !read_gid(gid, &partner->gid)) {
    return 0;
  }
  return mtu;
}

// Of one control connection. A device without rdma_cm is none to give up for: it has other cases.
static void open_manager_of(struct manager* manager, const struct device* device,
                            const struct control* control, const struct wire_options* options) {
  struct sockaddr_storage own, peer;
  int failed = ends_of(control, &own, &peer) ? 0 : ENOTCONN;
  if (failed == 0) {
    if (options->own != NULL) {
      read_address(options->own, &own);
    }
    failed = open_manager(manager, device, (uint16_t)options->cm_port, &own, &peer);
  }
  if (failed != 0) {
    fprintf(stderr, "conformance: no connections through rdma_cm: %s\n", strerror(failed));
  }
}

// "manager PORT ADDRESS", both ways: where rdma_cm listens, the latter "-" if the control
// connection's address is meant. Only once both have greeted: nobody else makes
// a device listen. Returns 0 if the other side has no such answer.
static int meet_manager(struct control* control, struct manager* manager, struct partner* partner,
                        const struct wire_options* options) {
  char line[line_bytes_max], address[INET6_ADDRSTRLEN];
  unsigned port = 0;
  _Static_assert(INET6_ADDRSTRLEN == 46, "as in the format below, with its end");
  if (!tell(control, "manager %u %s", manager_port(manager),
            options->own != NULL ? options->own : same_address) ||
      !hear(control, line) || sscanf(line, "manager %u %45s", &port, address) != 2 ||
      port > UINT16_MAX) {
    return 0;
  }
  partner->address = (struct sockaddr_storage){.ss_family = AF_UNSPEC};
  if (strcmp(address, same_address) != 0 && !read_address(address, &partner->address)) {
    return 0;
  }
  partner->port = (uint16_t)port;
  set_partner(manager, partner);
  return 1;
}

// --- Agent

// "case OPERATION SIZE MTU WHO HOW", where WHO initiates: 1 for the agent, and HOW is 1 for through
// rdma_cm.
static int obey(struct device* device, struct manager* manager, struct control* control,
                const char* line) {
  int index = 0, mtu = 0, is_initiator = 0, by_cm = 0;
  unsigned bytes = 0;
  if (sscanf(line, "case %d %u %d %d %d", &index, &bytes, &mtu, &is_initiator, &by_cm) != 5 ||
      index < 0 || index >= wire_operation_count || bytes > wire_bytes_max || mtu < mtu_min ||
      mtu > mtu_max) {
    return 0;
  }
  const struct wire_operation* operation = &wire_operations[index];
  if ((needs_cm(operation) && !by_cm) ||
      (operation->kind >= kind_connect && bytes > private_data_max)) {
    return 0;
  }
  const struct wire_case what = {operation, bytes, mtu_of(mtu), is_initiator != 0, by_cm != 0};
  char outcome[outcome_bytes_max];
  return run_wire_case(device, manager, &what, control, outcome) && tell(control, "%s", outcome);
}

static int serve(struct device* device, struct control* control,
                 const struct wire_options* options) {
  char line[line_bytes_max];
  struct manager manager = {0};
  struct partner partner;
  if (!greet(control, device) || hear_greeting(control, &partner) == 0) {
    return 0;
  }
  open_manager_of(&manager, device, control, options);
  int goes_on = meet_manager(control, &manager, &partner, options);
  while (goes_on) {
    goes_on = hear(control, line) && obey(device, &manager, control, line);
  }
  close_manager(&manager);
  return 1;
}

int run_agent(const struct wire_options* options) { return serve_all(options, serve); }

// --- Master

static int is_unsupported(const char* outcome) { return strncmp(outcome, "unsupported", 11) == 0; }

// One side may have failed only because the other one did.
static int is_consequence(const char* outcome) { return strcmp(outcome, "not begun") == 0; }

static int is_ok(const char* outcome) {
  return strncmp(outcome, "ok", 2) == 0 && (outcome[2] == '\0' || outcome[2] == ':');
}

// What both sides say, but for what says nothing.
static void join_words(char* words, size_t room, const char* ours, const char* theirs) {
  const char* const outcomes[2] = {ours, theirs};
  const char* const names[2] = {"ours", "theirs"};
  size_t length = 0;
  words[0] = '\0';
  for (int i = 0; i < 2; ++i) {
    const char* text = is_ok(outcomes[i]) ? outcomes[i] + 2 : outcomes[i];
    text += strspn(text, ": ");
    if (*text != '\0' && !is_consequence(text)) {
      length += (size_t)snprintf(words + length, room - length, "%s%s: %.*s",
                                 length != 0 ? "; " : "", names[i], outcome_bytes_max, text);
    }
  }
}

static void print_result(const struct wire_case* what, const char* ours, const char* theirs) {
  const int agrees = is_ok(ours) && is_ok(theirs);
  const int unsupported = is_unsupported(ours) || is_unsupported(theirs);
  const char* result = agrees ? "agrees" : unsupported ? "unsupported" : "differs";
  char words[2 * line_bytes_max];
  join_words(words, sizeof words, ours, theirs);
  printf("{\"operation\": \"%s\", \"way\": \"%s\", \"size\": %u, \"mtu\": %d, ",
         what->operation->name, what->by_cm ? "cm" : "verbs", what->bytes, mtu_bytes(what->mtu));
  printf("\"initiator\": \"%s\", \"result\": \"%s\", \"words\": ",
         what->is_initiator ? "ours" : "theirs", result);
  print_json_string(stdout, words);
  printf("}\n");
  fflush(stdout);
}

// All that a run needs.
struct master {
  struct device device;
  struct manager manager;
  struct control control;
  enum ibv_mtu mtu;
  int by_cm;
  // The agent's iWARP device has an address of its own: what goes to a port without a listener
  // doesn't end before it is there, as in QEMU's network.
  int is_direct;
};

static int run_one(struct master* master, int index, uint32_t bytes, int is_initiator) {
  const struct wire_operation* operation = &wire_operations[index];
  const int by_cm = master->by_cm || needs_cm(operation);
  const struct wire_case what = {operation, bytes, master->mtu, is_initiator, by_cm};
  char ours[outcome_bytes_max], theirs[line_bytes_max];
  if (!tell(&master->control, "case %d %u %d %d %d", index, bytes, mtu_bytes(master->mtu),
            !is_initiator, by_cm) ||
      !run_wire_case(&master->device, &master->manager, &what, &master->control, ours) ||
      !hear(&master->control, theirs)) {
    fprintf(stderr, "conformance: the agent is gone, at %s, %u bytes\n", what.operation->name,
            bytes);
    return 0;
  }
  theirs[outcome_bytes_max - 1] = '\0';
  print_result(&what, ours, theirs);
  return 1;
}

enum { sizes_max = 7 };

// The sizes of an operation: around the borders of packets, and two long ones; of private data, up
// to what a request holds.
static int sizes_of(const struct wire_operation* operation, uint32_t mtu,
                    uint32_t sizes[sizes_max]) {
  if (operation->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
      operation->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    sizes[0] = sizeof(uint64_t);
    return 1;
  }
  if (operation->kind == kind_wrong_key || operation->kind == kind_too_long) {
    sizes[0] = probe_bytes;
    return 1;
  }
  if (operation->kind >= kind_connect) {
    const uint32_t few[3] = {0, 1, private_data_of_req};
    memcpy(sizes, few, sizeof few);
    return operation->kind == kind_nobody ? 1 : 3;
  }
  const uint32_t all[sizes_max] = {0, 1, mtu - 1, mtu, mtu + 1, 65536, wire_bytes_max};
  memcpy(sizes, all, sizeof all);
  // A datagram is one packet. Of the other unreliable one a mebibyte rarely arrives whole.
  return operation->type == IBV_QPT_UD ? 4 : operation->type == IBV_QPT_UC ? 6 : sizes_max;
}

// Is there such a thing on this device, connected in this way?
static int is_for(const struct master* master, const struct wire_operation* operation) {
  if (is_iwarp(&master->device)) {
    const int is_seen = operation->kind != kind_nobody || master->is_direct;
    return operation->type == IBV_QPT_RC && is_seen;
  }
  return !master->by_cm || operation->type == IBV_QPT_RC || operation->kind == kind_multicast;
}

static int run_all(struct master* master, const char* only) {
  for (int index = 0; index < wire_operation_count; ++index) {
    const struct wire_operation* operation = &wire_operations[index];
    if ((only != NULL && strstr(operation->name, only) == NULL) || !is_for(master, operation)) {
      continue;
    }
    uint32_t sizes[sizes_max];
    const int count = sizes_of(operation, (uint32_t)mtu_bytes(master->mtu), sizes);
    for (int i = 0; i < count; ++i) {
      if (!run_one(master, index, sizes[i], 1) || !run_one(master, index, sizes[i], 0)) {
        return 0;
      }
    }
  }
  return 1;
}

// Returns the path MTU in bytes; 0 if who listens is no agent of this version.
static int meet_agent(struct master* master, const struct wire_options* options) {
  struct partner partner;
  const int theirs = hear_greeting(&master->control, &partner);
  if (theirs < mtu_min) {
    return 0;
  }
  const int ours = mtu_bytes(master->device.port.active_mtu);
  int mtu = options->mtu != 0 ? options->mtu : mtu_max;
  mtu = theirs < mtu ? theirs : mtu;
  mtu = ours < mtu ? ours : mtu;
  if (!greet(&master->control, &master->device)) {
    return 0;
  }
  open_manager_of(&master->manager, &master->device, &master->control, options);
  if (!meet_manager(&master->control, &master->manager, &partner, options)) {
    return 0;
  }
  master->is_direct = partner.address.ss_family != AF_UNSPEC;
  return mtu;
}

int run_master(const struct wire_options* options) {
  struct master master = {.by_cm = options->by_cm};
  open_device(&master.device, options->device, options->ip_version);
  // A device of iWARP has no other way.
  master.by_cm = master.by_cm || is_iwarp(&master.device);
  if (!connect_to(options->address, &master.control)) {
    fprintf(stderr, "conformance: no agent at %s\n", options->address);
    return 1;
  }
  const int mtu = meet_agent(&master, options);
  if (mtu == 0) {
    fprintf(stderr, "conformance: who listens at %s is no agent of this version\n",
            options->address);
    return 1;
  }
  master.mtu = mtu_of(mtu);
  const int done = run_all(&master, options->only);
  close_manager(&master.manager);
  close_control(&master.control);
  return done ? 0 : 1;
}
