// An address of a host on a link, with its subnet. IPv4 addresses are mapped (::ffff:a.b.c.d,
// RFC 4291, 2.5.5.2), as they are in GIDs, so that one table holds both kinds.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/inet/ip_address.h"
#include "proto/inet/mac_address.h"

namespace verbena::inet {

/// Bits of a prefix: of an address, and those that a mapped one has in front of the IPv4 address.
inline constexpr unsigned ipv6_bits = 128;
inline constexpr unsigned mapped_bits = 96;
/// What an address without a prefix is taken for: /24, and /64 (RFC 4291, 2.5.4).
inline constexpr unsigned ipv4_prefix_bits_default = 24;
inline constexpr unsigned ipv6_prefix_bits_default = 64;

inline constexpr std::array<std::uint8_t, mapped_bits / 8> mapped_prefix = {0, 0, 0, 0, 0,    0,
                                                                            0, 0, 0, 0, 0xFF, 0xFF};

[[nodiscard]] constexpr Ipv6Address mapped(Ipv4Address address) {
  Ipv6Address result;
  std::ranges::copy(mapped_prefix, result.bytes.begin());
  std::ranges::copy(address.bytes, result.bytes.begin() + mapped_prefix.size());
  return result;
}
/// nullopt if it isn't mapped.
[[nodiscard]] constexpr std::optional<Ipv4Address> ipv4_of(const Ipv6Address& address) {
  if (!std::equal(mapped_prefix.begin(), mapped_prefix.end(), address.bytes.begin())) {
    return std::nullopt;
  }
  const auto& bytes = address.bytes;
  return Ipv4Address{{bytes[12], bytes[13], bytes[14], bytes[15]}};
}
/// The link-local address that belongs to an Ethernet address: fe80::/64 and its modified EUI-64
/// (RFC 4291, appendix A).
[[nodiscard]] Ipv6Address link_local_of(const MacAddress& mac);

struct LinkAddress {
  Ipv6Address address{};
  /// Of the 128 bits of `address`: an IPv4 prefix of 24 bits is one of 120.
  unsigned prefix_bits = ipv6_bits;

  /// "10.7.0.1/24", "fd00::1/64", or without a prefix, which is then the default. The prefix is 1
  /// to 32 and 1 to 128, or 97 to 128 of "::ffff:10.7.0.1".
  [[nodiscard]] static std::optional<LinkAddress> from_text(std::string_view text);
  [[nodiscard]] std::string to_text() const;
  /// Whether `other` is in the same subnet.
  [[nodiscard]] bool covers(const Ipv6Address& other) const;

  friend bool operator==(const LinkAddress&, const LinkAddress&) = default;
};

}  // namespace verbena::inet
