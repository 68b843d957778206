// What the roles that wait for others have in common: a device, and a place to listen at.
#pragma once

#include "lab/conformance/control.h"
#include "lab/conformance/endpoint.h"
#include "lab/conformance/wire.h"

// Serves who has connected, until the connection is gone. Returns 0 if that is nobody who speaks
// the role's protocol.
typedef int (*serve_one)(struct device* device, struct control* control,
                         const struct wire_options* options);

// Opens the device and serves whoever connects, one after the other; with `once`, until the first
// has been served. Returns the program's exit status.
int serve_all(const struct wire_options* options, serve_one serve);
