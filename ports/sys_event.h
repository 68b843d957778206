// An event that a thread can wait for as for a socket (eventfd(2)); system calls as in sys.h.
#pragma once

#include "ports/sys.h"

namespace verbena::ports::sys {

/// Not set, non-blocking, close-on-exec.
[[nodiscard]] Result<Fd, int> event();
/// The descriptor is readable from now on, or not.
void set_event(int fd);
void clear_event(int fd);

}  // namespace verbena::ports::sys
