#include "proto/inet/tcp/byte_ring.h"

#include <algorithm>

#include "base/check.h"

namespace verbena::inet {

void ByteRing::put(std::size_t offset, ByteView bytes) {
  VERBENA_CHECK(offset + bytes.size() <= capacity_);
  if (bytes.empty()) {
    return;
  }
  const std::size_t at = position(offset);
  const std::size_t until_wrap = std::min(bytes.size(), capacity_ - at);
  copy_bytes(MutableBytes(bytes_.get() + at, until_wrap), bytes.first(until_wrap));
  copy_bytes(MutableBytes(bytes_.get(), capacity_), bytes.subspan(until_wrap));
}

void ByteRing::grow(std::size_t bytes) {
  VERBENA_CHECK(bytes <= room());
  size_ += bytes;
}

std::size_t ByteRing::append(ByteView bytes) {
  const std::size_t taken = std::min(bytes.size(), room());
  put(size_, bytes.first(taken));
  size_ += taken;
  return taken;
}

void ByteRing::copy_out(std::size_t offset, MutableBytes to) const {
  VERBENA_CHECK(offset + to.size() <= size_);
  if (to.empty()) {
    return;
  }
  const std::size_t at = position(offset);
  const std::size_t until_wrap = std::min(to.size(), capacity_ - at);
  copy_bytes(to, ByteView(bytes_.get() + at, until_wrap));
  copy_bytes(to.subspan(until_wrap), ByteView(bytes_.get(), to.size() - until_wrap));
}

ByteView ByteRing::front() const {
  return {bytes_.get() + first_, std::min(size_, capacity_ - first_)};
}

void ByteRing::drop_front(std::size_t bytes) {
  VERBENA_CHECK(bytes <= size_);
  first_ = bytes < capacity_ ? position(bytes) : first_;
  size_ -= bytes;
}

}  // namespace verbena::inet
