// IPv4 and IPv6 addresses: values of alignment 1 that can be members of a wire struct. Bytes are in
// wire order, most significant first.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::inet {

struct Ipv4Address {
  std::array<std::uint8_t, 4> bytes{};

  /// Four decimal numbers without leading zeros, "127.0.0.1".
  [[nodiscard]] static std::optional<Ipv4Address> from_text(std::string_view text);
  /// From a number whose most significant byte is the first of the address.
  [[nodiscard]] static constexpr Ipv4Address from_value(std::uint32_t value) {
    return {{static_cast<std::uint8_t>(value >> 24), static_cast<std::uint8_t>(value >> 16),
             static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)}};
  }
  [[nodiscard]] constexpr std::uint32_t to_value() const {
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
           std::uint32_t{bytes[2]} << 8 | bytes[3];
  }
  [[nodiscard]] std::string to_text() const;
  /// 224.0.0.0/4 (RFC 5771).
  [[nodiscard]] constexpr bool is_multicast() const { return (bytes[0] & 0xF0) == 0xE0; }
  /// 127.0.0.0/8 (RFC 1122, 3.2.1.3).
  [[nodiscard]] constexpr bool is_loopback() const { return bytes[0] == 127; }

  friend constexpr auto operator<=>(const Ipv4Address&, const Ipv4Address&) = default;
};

struct Ipv6Address {
  std::array<std::uint8_t, 16> bytes{};

  /// The forms of RFC 4291, 2.2: "fe80::1", "::ffff:10.0.0.1". No zone.
  [[nodiscard]] static std::optional<Ipv6Address> from_text(std::string_view text);
  /// The one form that RFC 5952 recommends; IPv4-mapped addresses end in dotted decimal.
  [[nodiscard]] std::string to_text() const;
  /// ff00::/8 (RFC 4291, 2.7).
  [[nodiscard]] constexpr bool is_multicast() const { return bytes[0] == 0xFF; }
  /// fe80::/10 (RFC 4291, 2.5.6).
  [[nodiscard]] constexpr bool is_link_local() const {
    return bytes[0] == 0xFE && (bytes[1] & 0xC0) == 0x80;
  }

  friend constexpr auto operator<=>(const Ipv6Address&, const Ipv6Address&) = default;
};

}  // namespace verbena::inet
