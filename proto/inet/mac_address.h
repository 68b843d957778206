// The Ethernet address: a value of alignment 1 that can be a member of a wire struct.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::inet {

/// An Ethernet address (IEEE 802-2014, 8.2).
struct MacAddress {
  std::array<std::uint8_t, 6> bytes{};

  /// "02:00:00:00:00:01": six groups of two hexadecimal digits, separated by ':' or '-'.
  [[nodiscard]] static std::optional<MacAddress> from_text(std::string_view text);
  /// Lower case, separated by ':'.
  [[nodiscard]] std::string to_text() const;
  /// The group bit: multicast or broadcast.
  [[nodiscard]] constexpr bool is_group() const { return (bytes[0] & 0x01) != 0; }

  friend constexpr auto operator<=>(const MacAddress&, const MacAddress&) = default;
};

inline constexpr MacAddress mac_broadcast{{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}};

}  // namespace verbena::inet
