// A buffer of bytes that is allocated once (pages that are never used are never there): those at
// its front are taken away, others are put behind, and what is in between can be read anywhere.
#pragma once

#include <cstddef>
#include <memory>

#include "base/bytes.h"

namespace verbena::inet {

class ByteRing {
 public:
  explicit ByteRing(std::size_t capacity_bytes)
      : bytes_(std::make_unique_for_overwrite<std::byte[]>(capacity_bytes)),
        capacity_(capacity_bytes) {}

  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t room() const { return capacity_ - size_; }

  /// Writes at `offset` from the front, in or behind what is there, within the capacity. The size
  /// stays as it is.
  void put(std::size_t offset, ByteView bytes);
  /// What was put behind the end belongs to the ring now.
  void grow(std::size_t bytes);
  /// As much as there is room for; returns how much.
  std::size_t append(ByteView bytes);
  /// Copies what lies `offset` from the front; all of it must be there.
  void copy_out(std::size_t offset, MutableBytes to) const;
  /// The longest piece at the front that lies in one.
  [[nodiscard]] ByteView front() const;
  void drop_front(std::size_t bytes);

 private:
  [[nodiscard]] std::size_t position(std::size_t offset) const {
    const std::size_t sum = first_ + offset;
    return sum < capacity_ ? sum : sum - capacity_;
  }

  std::unique_ptr<std::byte[]> bytes_;
  std::size_t capacity_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace verbena::inet
