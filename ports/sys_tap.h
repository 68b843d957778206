// TAP interfaces: Ethernet interfaces of the kernel whose other end is a program (Linux'
// Documentation/networking/tuntap.rst); system calls as in sys.h.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "ports/sys.h"

namespace verbena::ports::sys {

/// The program's end of an interface, non-blocking, close-on-exec. -EPERM: it belongs to another
/// user. -EBUSY: another program has it. -EINVAL: it is no TAP interface.
[[nodiscard]] Result<Fd, int> tap(const std::string& interface);
/// A frame each; -EAGAIN if there is none, or no room. -EIO: the interface is down. -EBADFD: it was
/// removed, and the descriptor is good for nothing any more.
[[nodiscard]] int read_frame(int fd, MutableBytes room);
[[nodiscard]] int write_frame(int fd, ByteView frame);
/// Whether it is there and up: the kernel takes frames from it.
[[nodiscard]] bool is_interface_up(const std::string& interface);

}  // namespace verbena::ports::sys
