// The one lock of the library, and the way in for what the devices' connection managers tell.
//
// Locks: a device's connection manager has its own and takes the library's inside of it, to deliver
// events; so nothing may be called of a ports::CmDevice with the library's lock held.
#pragma once

#include <mutex>

#include "ports/cm_device.h"

namespace verbena::rdma_cm {

/// Guards event channels, their queues, and which channel an identifier belongs to.
[[nodiscard]] std::mutex& library_mutex();

[[nodiscard]] ports::CmConsumer& consumer();

}  // namespace verbena::rdma_cm
