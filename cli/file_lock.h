// Locks between processes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace verbena::cli {

/// A lock on a file (flock(2)). It is freed when this object goes or the process ends.
class FileLock {
 public:
  enum class Kind : std::uint8_t { shared, exclusive };

  /// Makes the file if there is none. If others hold a lock that this one has no place beside,
  /// says `while_waiting` on standard error and waits. The error is a sentence.
  [[nodiscard]] static Result<FileLock, std::string> take(const std::filesystem::path& file,
                                                          Kind kind,
                                                          std::string_view while_waiting);

  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace verbena::cli
