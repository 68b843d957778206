// The conformance program: written once against the verbs API, run on any device.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/conformance/alone.h"
#include "lab/conformance/connection.h"
#include "lab/conformance/report.h"
#include "lab/conformance/scripted.h"
#include "lab/conformance/wire.h"

static const char usage[] =
    "usage: conformance alone [--device D] [--address A]\n"
    "       conformance agent [--device D] [--listen ADDRESS:PORT] [--once] [--ipv6] [--cm-port "
    "N]\n"
    "                         [--address A]\n"
    "       conformance scripted [--device D] [--listen ADDRESS:PORT] [--once] [--ipv6]\n"
    "       conformance master --agent ADDRESS:PORT [--device D] [--mtu N] [--only TEXT] [--ipv6]\n"
    "                          [--through-cm] [--cm-port N] [--address A]\n"
    "\n"
    "alone   records what the device's API does, a JSON line for each observation\n"
    "agent   does what a master asks for, on a device; 127.0.0.1:18600 unless told otherwise\n"
    "master  runs each operation with an agent, both ways, and prints a JSON line for each\n"
    "scripted  is the device whose peer is a script, for `verbena xcheck --packets`\n"
    "\n"
    "--through-cm makes reliable connections through rdma_cm. iWARP has no other way, and is "
    "told by\n"
    "--address which of its interface's addresses to use: 127.0.0.1 alone, else the one of the "
    "agent's\n"
    "connection unless told otherwise. --cm-port is where rdma_cm listens.\n"
    "\n"
    "An agent obeys whoever connects: only as far as it takes to run these operations.\n";

static const char default_address[] = "127.0.0.1";

// An iWARP device's pairs are connected by rdma_cm, from the device's address to itself.
static void start_manager(struct manager* manager, const struct device* device,
                          const char* address_text) {
  struct sockaddr_storage address;
  read_address(address_text, &address);
  errno = open_manager(manager, device, 0, &address, &address);
  if (errno != 0) {
    fprintf(stderr,
            "conformance: rdma_cm can't listen on %s with %s: %s; --address takes an address of "
            "the device's interface\n",
            address_text, ibv_get_device_name(device->context->device), strerror(errno));
    exit(1);
  }
  const struct partner itself = {.port = manager_port(manager)};
  set_partner(manager, &itself);
  manager->device.manager = manager;
}

static int run_alone(const struct wire_options* options) {
  struct device device;
  struct manager manager = {0};
  open_device(&device, options->device, 4);
  observe("device", "open", "transport", "%s", is_iwarp(&device) ? "iWARP" : "InfiniBand");
  struct device* subject = &device;
  if (is_iwarp(&device)) {
    start_manager(&manager, &device, options->own ? options->own : default_address);
    subject = &manager.device;
  }
  observe_objects(subject);
  observe_transitions(subject);
  observe_traffic(subject);
  observe_failures(subject);
  close_manager(&manager);
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
    } else if (strcmp(words[i], "--address") == 0) {
      options->own = value;
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
  struct sockaddr_storage ignored;
  if (options.own != NULL && !read_address(options.own, &ignored)) {
    fprintf(stderr, "conformance: --address %s is no IP address\n", options.own);
    return 2;
  }
  // Who hangs up is told by what write() returns: an agent outlives its masters.
  signal(SIGPIPE, SIG_IGN);
  if (strcmp(argv[1], "alone") == 0) {
    return run_alone(&options);
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
