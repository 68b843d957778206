// Which bytes of a stream came ahead of their turn: ranges behind what came in order, few of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::inet {

class EarlyRanges {
 public:
  /// A segment that would make one more is lost: it comes again.
  static constexpr std::size_t ranges_max = 32;

  /// [begin, begin + bytes), counted from the next byte in order. False if it can't be kept.
  bool add(std::uint32_t begin, std::uint32_t bytes);
  /// `bytes` more came in order, counting from the front. Returns how many behind them were here
  /// already, which are in order now too.
  [[nodiscard]] std::uint32_t advance(std::uint32_t bytes);
  [[nodiscard]] bool empty() const { return count_ == 0; }

 private:
  struct Range {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };
  void erase(std::size_t first, std::size_t last);

  /// By position; they neither overlap nor touch.
  std::array<Range, ranges_max> ranges_{};
  std::size_t count_ = 0;
};

}  // namespace verbena::inet
