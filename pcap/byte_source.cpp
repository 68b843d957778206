#include "pcap/byte_source.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace verbena::pcap {
namespace {

constexpr std::size_t buffer_bytes = 64 * 1024;

}  // namespace

ByteSource::ByteSource(int fd) : fd_(fd), buffer_(buffer_bytes) {}

ByteSource::ByteSource(ByteView memory) : available_(memory) {}

// A moved vector keeps its storage, so `available_` stays right.
ByteSource::ByteSource(ByteSource&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)),
      available_(std::exchange(other.available_, {})),
      offset_(other.offset_),
      error_number_(other.error_number_) {}

ByteSource::~ByteSource() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

/// Appends to what is available with one read(2). False at the end.
bool ByteSource::refill() {
  if (fd_ < 0 || error_number_ != 0) {
    return false;
  }
  if (!available_.empty()) {
    std::memmove(buffer_.data(), available_.data(), available_.size());
  }
  const std::size_t kept = available_.size();
  ssize_t got;
  do {
    got = ::read(fd_, buffer_.data() + kept, buffer_.size() - kept);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    error_number_ = errno;
    got = 0;
  }
  available_ = ByteView(buffer_).first(kept + static_cast<std::size_t>(got));
  return got > 0;
}

std::size_t ByteSource::read(MutableBytes to) {
  std::size_t done = 0;
  while (done < to.size()) {
    if (available_.empty() && !refill()) {
      break;
    }
    const std::size_t size = std::min(available_.size(), to.size() - done);
    copy_bytes(to.subspan(done), available_.first(size));
    available_ = available_.subspan(size);
    done += size;
  }
  offset_ += done;
  return done;
}

ByteView ByteSource::peek(std::size_t size_max) {
  VERBENA_CHECK(size_max <= peek_bytes_max);
  while (available_.size() < size_max && refill()) {
  }
  return available_.first(std::min(size_max, available_.size()));
}

}  // namespace verbena::pcap
