#include "verbs/event_fd.h"

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// The calls below go around read() and write(): libraries such as librspreload put their own in
// front of libc's.

// libc's own name for read(), which is a point of cancellation; a bare system call isn't.
// NOLINTNEXTLINE(bugprone-reserved-identifier, readability-identifier-naming)
extern "C" ssize_t __read(int fd, void* buffer, size_t size);

namespace verbena::verbs {

EventFd::EventFd() noexcept : fd_(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}

EventFd::~EventFd() {
  if (fd_ >= 0) {
    ::syscall(SYS_close, fd_);
  }
}

void EventFd::signal() noexcept {
  const std::uint64_t one = 1;
  ::syscall(SYS_write, fd_, &one, sizeof one);
}

Errno EventFd::wait() {
  std::uint64_t token = 0;
  return __read(fd_, &token, sizeof token) < 0 ? errno : 0;
}

void EventFd::take_back(std::uint64_t count) noexcept {
  for (; count > 0; --count) {
    std::uint64_t token = 0;
    const iovec buffer{&token, sizeof token};
    // RWF_NOWAIT, for the program may have left the descriptor in blocking mode.
    if (::preadv2(fd_, &buffer, 1, -1, RWF_NOWAIT) < 0) {
      return;
    }
  }
}

}  // namespace verbena::verbs
