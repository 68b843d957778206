// Sequence numbers of TCP: 32 bits that wrap (RFC 9293, 3.4).
#pragma once

#include <cstdint>

namespace verbena::inet {

/// There is no operator<: which of two comes first only makes sense if they are less than 2^31
/// apart.
class TcpSeq {
 public:
  constexpr TcpSeq() = default;
  constexpr explicit TcpSeq(std::uint32_t value) : value_(value) {}

  [[nodiscard]] constexpr std::uint32_t value() const { return value_; }

  friend constexpr TcpSeq operator+(TcpSeq a, std::uint32_t bytes) {
    return TcpSeq(a.value_ + bytes);
  }
  /// Signed distance from b to a.
  friend constexpr std::int32_t operator-(TcpSeq a, TcpSeq b) {
    return static_cast<std::int32_t>(a.value_ - b.value_);
  }
  friend constexpr bool operator==(TcpSeq, TcpSeq) = default;

  [[nodiscard]] constexpr bool is_before(TcpSeq other) const { return *this - other < 0; }
  [[nodiscard]] constexpr bool is_after(TcpSeq other) const { return *this - other > 0; }

 private:
  std::uint32_t value_ = 0;
};

/// How many bytes lie between `from` and `to`, which is not before it.
[[nodiscard]] constexpr std::uint32_t bytes_between(TcpSeq from, TcpSeq to) {
  return to.value() - from.value();
}

[[nodiscard]] constexpr TcpSeq later_of(TcpSeq a, TcpSeq b) { return a.is_after(b) ? a : b; }

static_assert(TcpSeq(0).is_after(TcpSeq(0xFFFF'FFFF)));
static_assert(TcpSeq(5) - TcpSeq(0xFFFF'FFFE) == 7);

}  // namespace verbena::inet
