// The conformance program: written once against the verbs API, run on any device.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/conformance/alone.h"
#include "lab/conformance/scripted.h"
#include "lab/conformance/wire.h"

static const char usage[] =
    "usage: conformance alone [--device D]\n"
    "       conformance agent [--device D] [--listen ADDRESS:PORT] [--once] [--ipv6] [--cm-port "
    "N]\n"
    "       conformance scripted [--device D] [--listen ADDRESS:PORT] [--once] [--ipv6]\n"
    "       conformance master --agent ADDRESS:PORT [--device D] [--mtu N] [--only TEXT] [--ipv6]\n"
    "                          [--through-cm] [--cm-port N]\n"
    "\n"
    "alone   records what the device's API does, a JSON line for each observation\n"
    "agent   does what a master asks for, on a device; 127.0.0.1:18600 unless told otherwise\n"
    "master  runs each operation with an agent, both ways, and prints a JSON line for each\n"
    "scripted  is the device whose peer is a script, for `verbena xcheck --packets`\n"
    "\n"
    "--through-cm makes reliable connections through rdma_cm. iWARP has no other way, and wants "
    "the\n"
    "addresses of the agent's connection to be the devices'. --cm-port is where rdma_cm listens.\n"
    "\n"
    "An agent obeys whoever connects: only as far as it takes to run these operations.\n";

static int run_alone(const char* device_name) {
  struct device device;
  open_device(&device, device_name, 4);
  observe_objects(&device);
  observe_transitions(&device);
  observe_traffic(&device);
  observe_failures(&device);
  ibv_close_device(device.context);
  return 0;
}

static int bad_usage(void) {
  fputs(usage, stderr);
  return 2;
}

// Stores the values of the options in `options`; 0 if there is one that it doesn't know.
static int parse(int count, char** words, struct wire_options* options) {
  for (int i = 0; i < count; ++i) {
    if (strcmp(words[i], "--once") == 0) {
      options->once = 1;
      continue;
    }
    if (strcmp(words[i], "--ipv6") == 0) {
      options->ip_version = 6;
      continue;
    }
    if (strcmp(words[i], "--through-cm") == 0) {
      options->by_cm = 1;
      continue;
    }
    if (i + 1 == count) {
      return 0;
    }
    const char* value = words[i + 1];
    if (strcmp(words[i], "--device") == 0) {
      options->device = value;
    } else if (strcmp(words[i], "--listen") == 0 || strcmp(words[i], "--agent") == 0) {
      options->address = value;
    } else if (strcmp(words[i], "--mtu") == 0) {
      options->mtu = atoi(value);
    } else if (strcmp(words[i], "--cm-port") == 0) {
      options->cm_port = atoi(value);
    } else if (strcmp(words[i], "--only") == 0) {
      options->only = value;
    } else {
      return 0;
    }
    ++i;
  }
  return 1;
}

int main(int argc, char** argv) {
  struct wire_options options = {.ip_version = 4};
  if (argc < 2 || !parse(argc - 2, argv + 2, &options)) {
    return bad_usage();
  }
  // Who hangs up is told by what write() returns: an agent outlives its masters.
  signal(SIGPIPE, SIG_IGN);
  if (strcmp(argv[1], "alone") == 0) {
    return run_alone(options.device);
  }
  if (strcmp(argv[1], "agent") == 0) {
    return run_agent(&options);
  }
  if (strcmp(argv[1], "scripted") == 0) {
    return run_scripted(&options);
  }
  if (strcmp(argv[1], "master") == 0 && options.address != NULL) {
    return run_master(&options);
  }
  return bad_usage();
}
