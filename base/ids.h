// Strong types for the numbers of the InfiniBand transport. What has arithmetic of its own is a
// class (Psn, Msn); what is only a name is an enum class (Qpn, Rkey, ...): comparable, printable
// after to_value(), impossible to mix up.
#pragma once

#include <cstdint>
#include <type_traits>

namespace verbena {

/// A 24-bit serial number with wrap-around (IBTA vol 1, 9.7.1: PSN window of 2^23). There is no
/// operator<: whether one serial number lies before another only makes sense within the window.
template <class Tag>
class Serial24 {
 public:
  static constexpr std::uint32_t mask = 0xFF'FFFF;

  constexpr Serial24() = default;
  /// Keeps the low 24 bits.
  constexpr explicit Serial24(std::uint32_t value) : value_(value & mask) {}

  [[nodiscard]] constexpr std::uint32_t value() const { return value_; }

  /// The next serial number, and the one `n` further (n may be negative).
  [[nodiscard]] constexpr Serial24 next() const { return Serial24(value_ + 1); }
  friend constexpr Serial24 operator+(Serial24 a, std::int32_t n) {
    return Serial24(a.value_ + static_cast<std::uint32_t>(n));
  }
  /// Signed distance from b to a, in [-2^23, 2^23).
  friend constexpr std::int32_t operator-(Serial24 a, Serial24 b) {
    return static_cast<std::int32_t>((a.value_ - b.value_) << 8) >> 8;
  }
  friend constexpr bool operator==(Serial24, Serial24) = default;

  [[nodiscard]] constexpr bool is_before(Serial24 other) const { return *this - other < 0; }
  [[nodiscard]] constexpr bool is_after(Serial24 other) const { return *this - other > 0; }

 private:
  std::uint32_t value_ = 0;
};

/// Packet sequence number (24 bits of the BTH; IBTA vol 1, 9.2).
using Psn = Serial24<struct PsnTag>;
/// Message sequence number (AETH, IBTA vol 1, 9.7.5.1.2): completed requests modulo 2^24.
using Msn = Serial24<struct MsnTag>;

static_assert(Psn(0).is_after(Psn(0xFF'FFFF)), "serial arithmetic wraps at 24 bits");
static_assert(Psn(0) - Psn(0xFF'FFFF) == 1);
static_assert(Psn(0x7F'FFFF) - Psn(0) == 0x7F'FFFF);
static_assert(Psn(0x80'0000) - Psn(0) == -0x80'0000);
static_assert(Psn(5) + -6 == Psn(0xFF'FFFF));

/// Queue pair number, 24 bits. QP0 is SMI, QP1 is GSI, 0xFFFFFF is multicast.
enum class Qpn : std::uint32_t {};
/// Remote and local keys, 32 bits: 24-bit index, 8-bit variant owned by the consumer.
enum class Rkey : std::uint32_t {};
enum class Lkey : std::uint32_t {};
/// Partition key, 16 bits: bit 15 tells full membership.
enum class Pkey : std::uint16_t {};
/// Queue key, 32 bits (UD).
enum class Qkey : std::uint32_t {};
/// Protection domain, local to one Nic.
enum class PdId : std::uint32_t {};
/// Virtual address as the wire carries it (RETH.va) or an SGE names it. Not a host pointer.
enum class Va : std::uint64_t {};

inline constexpr std::uint32_t qpn_mask = 0xFF'FFFF;
inline constexpr Qpn qpn_gsi{1};
inline constexpr Qpn qpn_multicast{0xFF'FFFF};
/// The default partition, full membership (IBTA vol 1, 10.9.1.2).
inline constexpr Pkey pkey_default{0xFFFF};

/// The number behind a strong id, for printing and for the wire.
template <class Id>
  requires std::is_enum_v<Id>
[[nodiscard]] constexpr std::underlying_type_t<Id> to_value(Id id) {
  return static_cast<std::underlying_type_t<Id>>(id);
}

[[nodiscard]] constexpr Va operator+(Va va, std::uint64_t bytes) {
  return Va{to_value(va) + bytes};
}

}  // namespace verbena
