#include "lab/conformance/server.h"

#include <stddef.h>

static const char default_address[] = "127.0.0.1:18600";

int serve_all(const struct wire_options* options, serve_one serve) {
  struct device device;
  open_device(&device, options->device, options->ip_version);
  const int listener = listen_at(options->address != NULL ? options->address : default_address);
  int served = 0;
  while (!served || !options->once) {
    struct control control;
    if (!accept_from(listener, &control)) {
      continue;
    }
    served = serve(&device, &control, options);
    close_control(&control);
  }
  return 0;
}
