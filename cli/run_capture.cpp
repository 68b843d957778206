#include "cli/run_capture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace verbena::cli {
namespace {

using Prepared = Result<std::string, std::string>;

std::unexpected<std::string> not_writable(const std::string& path, int error_number) {
  return std::unexpected(
      fmt::format("can't write the capture {}: {}", path, std::strerror(error_number)));
}

/// Empties a file, but not under a program that writes its capture there:
/// pcap::PcapngWriter::open() locks it.
Prepared prepare_file(const std::string& path) {
  constexpr mode_t owner_only = 0600;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, owner_only);
  if (fd < 0) {
    return not_writable(path, errno);
  }
  Prepared result = path;
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    result = std::unexpected(
        fmt::format("{}: a running program writes its capture there; choose another file", path));
  } else if (::ftruncate(fd, 0) != 0) {
    result = not_writable(path, errno);
  }
  ::close(fd);
  return result;
}

Prepared prepare_stdout() {
  struct stat status{};
  if (::fstat(STDOUT_FILENO, &status) != 0) {
    return not_writable("to standard output", errno);
  }
  if (::isatty(STDOUT_FILENO) == 1) {
    return std::unexpected(
        "a capture is no text for a terminal; write --capture - only to a pipe or a file");
  }
  if (S_ISSOCK(status.st_mode)) {
    return std::unexpected("standard output is a socket, which can't take a capture; use a pipe");
  }
  // The descriptor is inherited, so that the program can open it by its name.
  const int fd = ::dup(STDOUT_FILENO);
  if (fd < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    return not_writable("to standard output", errno);
  }
  return fmt::format("/proc/self/fd/{}", fd);
}

}  // namespace

Prepared prepare_capture(const std::string& wanted) {
  if (wanted == "-") {
    return prepare_stdout();
  }
  // The program may change its directory before it opens its device.
  std::error_code failure;
  std::string path = std::filesystem::absolute(wanted, failure).string();
  if (failure) {
    return not_writable(wanted, failure.value());
  }
  struct stat status{};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists || S_ISREG(status.st_mode)) {
    return prepare_file(path);
  }
  if (::access(path.c_str(), W_OK) != 0) {
    return not_writable(path, errno);
  }
  if (S_ISDIR(status.st_mode)) {
    return not_writable(path, EISDIR);
  }
  return path;
}

}  // namespace verbena::cli
