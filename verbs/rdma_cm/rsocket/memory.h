// Memory of programs, as the calls name it: one piece, or a list of parts.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::rsocket {

inline std::uint64_t address_of(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

inline std::size_t total_of(std::span<const iovec> parts) {
  std::size_t total = 0;
  for (const iovec& part : parts) {
    total += part.iov_len;
  }
  return total;
}

/// Walks through a list of parts, as if they were one piece of memory.
class Parts {
 public:
  explicit Parts(std::span<const iovec> parts) : parts_(parts) {}

  /// The next piece, at most of that size.
  std::span<std::byte> next(std::size_t length_max) {
    while (offset_ == parts_.front().iov_len) {
      parts_ = parts_.subspan(1);
      offset_ = 0;
    }
    const std::size_t length = std::min(length_max, parts_.front().iov_len - offset_);
    auto* start = static_cast<std::byte*>(parts_.front().iov_base) + offset_;
    offset_ += length;
    return {start, length};
  }

 private:
  std::span<const iovec> parts_;
  std::size_t offset_ = 0;
};

}  // namespace verbena::rsocket
