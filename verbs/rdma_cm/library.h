// The one lock of the library.
//
// Locks: a device's connection manager has its own and takes the library's inside of it, to deliver
// events; so nothing may be called of a Manager with the library's lock held.
#pragma once

#include <mutex>

namespace verbena::rdma_cm {

/// Guards event channels, their queues, and which channel an identifier belongs to.
[[nodiscard]] std::mutex& library_mutex();

}  // namespace verbena::rdma_cm
