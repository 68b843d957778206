// How librdmacm.so.1 gets at the connection manager that runs in libibverbs.so.1.
#pragma once

#include "ports/cm_device.h"
#include "verbs/abi.h"

/// The connection manager of a context's device, started at the first call; nullptr and errno on
/// failure, of which the user has been told. It lives as long as the device is open. Its version in
/// the library's symbol table changes with each change of ports::CmDevice.
VERBENA_EXPORT verbena::ports::CmDevice* verbena_cm_device(ibv_context* context);
