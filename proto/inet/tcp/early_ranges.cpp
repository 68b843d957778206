#include "proto/inet/tcp/early_ranges.h"

#include <algorithm>

namespace verbena::inet {

void EarlyRanges::erase(std::size_t first, std::size_t last) {
  std::copy(ranges_.begin() + static_cast<std::ptrdiff_t>(last),
            ranges_.begin() + static_cast<std::ptrdiff_t>(count_),
            ranges_.begin() + static_cast<std::ptrdiff_t>(first));
  count_ -= last - first;
}

bool EarlyRanges::add(std::uint32_t begin, std::uint32_t bytes) {
  Range added{.begin = begin, .end = begin + bytes};
  std::size_t first = 0;
  while (first < count_ && ranges_[first].end < added.begin) {
    ++first;
  }
  std::size_t last = first;
  while (last < count_ && ranges_[last].begin <= added.end) {
    added.begin = std::min(added.begin, ranges_[last].begin);
    added.end = std::max(added.end, ranges_[last].end);
    ++last;
  }
  if (first == last) {
    if (count_ == ranges_max) {
      return false;
    }
    std::copy_backward(ranges_.begin() + static_cast<std::ptrdiff_t>(first),
                       ranges_.begin() + static_cast<std::ptrdiff_t>(count_),
                       ranges_.begin() + static_cast<std::ptrdiff_t>(count_ + 1));
    ++count_;
  } else {
    erase(first + 1, last);
  }
  ranges_[first] = added;
  return true;
}

std::uint32_t EarlyRanges::advance(std::uint32_t bytes) {
  std::uint32_t front = bytes;
  std::size_t used = 0;
  while (used < count_ && ranges_[used].begin <= front) {
    front = std::max(front, ranges_[used].end);
    ++used;
  }
  erase(0, used);
  for (std::size_t i = 0; i < count_; ++i) {
    ranges_[i].begin -= front;
    ranges_[i].end -= front;
  }
  return front - bytes;
}

}  // namespace verbena::inet
