// Waiting for several sockets at once, and for descriptors of the kernel's among them.
#pragma once

#include <poll.h>

#include <span>

#include "base/result.h"
#include "verbs/rdma_cm/abi.h"

namespace verbena::rsocket {

/// As poll(): how many have something to tell.
[[nodiscard]] Result<int, rdma_cm::Errno> poll(std::span<pollfd> list, int timeout_ms);

}  // namespace verbena::rsocket
