#include "proto/inet/link_address.h"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>

namespace verbena::inet {

Ipv6Address link_local_of(const MacAddress& mac) {
  constexpr std::uint8_t universal_bit = 0x02;
  const auto& m = mac.bytes;
  return {{0xFE, 0x80, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(m[0] ^ universal_bit), m[1],
           m[2], 0xFF, 0xFE, m[3], m[4], m[5]}};
}

std::optional<LinkAddress> LinkAddress::from_text(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string_view address = text.substr(0, slash);
  const auto ipv4 = Ipv4Address::from_text(address);
  const auto ipv6 = ipv4 ? std::optional(mapped(*ipv4)) : Ipv6Address::from_text(address);
  if (!ipv6) {
    return std::nullopt;
  }
  // In IPv6's notation an IPv4 address has a prefix that counts all 128 bits.
  const unsigned bits_before = !ipv4 && ipv4_of(*ipv6) ? mapped_bits : 0;
  unsigned bits =
      ipv4 || bits_before > 0 ? bits_before + ipv4_prefix_bits_default : ipv6_prefix_bits_default;
  const unsigned bits_max = ipv4 ? ipv6_bits - mapped_bits : ipv6_bits;
  if (slash != std::string_view::npos) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, bits);
    if (stop != end || error != std::errc{} || bits <= bits_before || bits > bits_max) {
      return std::nullopt;
    }
  }
  return LinkAddress{*ipv6, ipv4 ? bits + mapped_bits : bits};
}

std::string LinkAddress::to_text() const {
  const auto ipv4 = ipv4_of(address);
  return ipv4 ? fmt::format("{}/{}", ipv4->to_text(), prefix_bits - mapped_bits)
              : fmt::format("{}/{}", address.to_text(), prefix_bits);
}

bool LinkAddress::covers(const Ipv6Address& other) const {
  const std::size_t whole_bytes = prefix_bits / 8;
  if (!std::equal(address.bytes.begin(),
                  address.bytes.begin() + static_cast<std::ptrdiff_t>(whole_bytes),
                  other.bytes.begin())) {
    return false;
  }
  const unsigned rest_bits = prefix_bits % 8;
  const unsigned difference =
      rest_bits == 0 ? 0U : unsigned{address.bytes[whole_bytes]} ^ other.bytes[whole_bytes];
  return difference >> (8 - rest_bits) == 0;
}

}  // namespace verbena::inet
