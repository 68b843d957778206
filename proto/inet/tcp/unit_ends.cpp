#include "proto/inet/tcp/unit_ends.h"

namespace verbena::inet {

void UnitEnds::add(TcpSeq begin, TcpSeq end, TcpSeq sent, std::uint32_t segment_bytes) {
  if (!ends_) {
    ends_ = std::make_unique<TcpSeq[]>(ends_max);
  }
  const bool joins = count_ > 0 && !last_begin_.is_before(sent) &&
                     bytes_between(last_begin_, end) <= segment_bytes;
  if (joins || count_ == ends_max) {
    at(count_ - 1) = end;
    return;
  }
  at(count_) = end;
  ++count_;
  last_begin_ = begin;
}

void UnitEnds::drop_until(TcpSeq front) {
  while (count_ > 0 && !at(0).is_after(front)) {
    first_ = (first_ + 1) % ends_max;
    --count_;
  }
}

std::size_t UnitEnds::count_until(TcpSeq place) const {
  std::size_t low = 0;
  std::size_t high = count_;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (at(middle).is_after(place)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

std::optional<TcpSeq> UnitEnds::last_within(TcpSeq from, std::uint32_t bytes) const {
  const std::size_t count = count_until(from + bytes);
  return count > 0 && at(count - 1).is_after(from) ? std::optional(at(count - 1)) : std::nullopt;
}

std::optional<TcpSeq> UnitEnds::first_behind(TcpSeq from) const {
  const std::size_t count = count_until(from);
  return count < count_ ? std::optional(at(count)) : std::nullopt;
}

}  // namespace verbena::inet
