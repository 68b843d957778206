#include "cli/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace verbena::cli {

Result<FileLock, std::string> FileLock::take(const std::filesystem::path& file, Kind kind,
                                             std::string_view while_waiting) {
  // Reading is enough for a lock, so that those who may not write there can hold one, too.
  constexpr mode_t mode = 0644;
  const int fd = ::open(file.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, mode);
  if (fd < 0) {
    return std::unexpected(
        fmt::format("can't open {}: {}", file.string(), std::generic_category().message(errno)));
  }
  FileLock lock(fd);
  const int operation = kind == Kind::shared ? LOCK_SH : LOCK_EX;
  if (::flock(fd, operation | LOCK_NB) != 0) {
    fmt::print(stderr, "{}\n", while_waiting);
    if (::flock(fd, operation) != 0) {
      return std::unexpected(
          fmt::format("gave up waiting: {}", std::generic_category().message(errno)));
    }
  }
  return lock;
}

FileLock::~FileLock() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

}  // namespace verbena::cli
