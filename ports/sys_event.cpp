#include "ports/sys_event.h"

#include <sys/eventfd.h>

#include <cstdint>

#include "ports/sys_call.h"

namespace verbena::ports::sys {

Result<Fd, int> event() {
  const int fd = int_call(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) {
    return std::unexpected(fd);
  }
  return Fd(fd);
}

void set_event(int fd) {
  const std::uint64_t one = 1;
  static_cast<void>(call(SYS_write, fd, &one, sizeof(one)));
}

void clear_event(int fd) {
  std::uint64_t count = 0;
  static_cast<void>(call(SYS_read, fd, &count, sizeof(count)));
}

}  // namespace verbena::ports::sys
