// How librdmacm.so.1 gets at the connection manager that runs in libibverbs.so.1.
#pragma once

#include "ports/cm_device.h"
#include "ports/iwarp_device.h"
#include "verbs/abi.h"

// One of them for each kind of device. Their version in the library's symbol table changes with
// each change of ports::CmDevice or ports::IwarpDevice.

/// The connection manager of a context's RoCE device, started at the first call; nullptr and errno
/// on failure, of which the user has been told. It lives as long as the device is open.
VERBENA_EXPORT verbena::ports::CmDevice* verbena_cm_device(ibv_context* context);
/// The same of an iWARP device: its connections.
VERBENA_EXPORT verbena::ports::IwarpDevice* verbena_iwarp_device(ibv_context* context);

/// Whether a device of ibv_get_device_list() is ours, and not a real one of the host beside ours.
VERBENA_EXPORT bool verbena_is_ours(const ibv_device* device);
