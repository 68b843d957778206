// How ports/ makes a system call (see sys.h): directly, with the kernel's answer as the result.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace verbena::ports::sys {

/// The kernel's answer, a value or -errno. Leaves errno alone.
template <class... Args>
long call(long number, Args... args) {
  const int saved = errno;
  const long result = ::syscall(number, args...);
  const long answer = result == -1 ? -static_cast<long>(errno) : result;
  errno = saved;
  return answer;
}

template <class... Args>
int int_call(long number, Args... args) {
  return static_cast<int>(call(number, args...));
}

}  // namespace verbena::ports::sys
