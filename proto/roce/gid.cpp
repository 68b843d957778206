#include "proto/roce/gid.h"

#include <fmt/format.h>

#include "proto/inet/link_address.h"

namespace verbena::roce {
namespace {

/// Of a MAC address, and inverted in an EUI-64 (RFC 4291, A).
constexpr std::uint8_t universal_local_bit = 0x02;

}  // namespace

Gid gid_from_ipv4(inet::Ipv4Address address) { return {inet::mapped(address).bytes}; }

Gid gid_from_ipv6(const inet::Ipv6Address& address) { return {address.bytes}; }

Gid gid_link_local(const inet::MacAddress& mac) { return {inet::link_local_of(mac).bytes}; }

std::optional<inet::MacAddress> mac_from_link_local(const Gid& gid) {
  const auto& g = gid.bytes;
  const inet::MacAddress mac{
      {static_cast<std::uint8_t>(g[8] ^ universal_local_bit), g[9], g[10], g[13], g[14], g[15]}};
  return gid_link_local(mac) == gid ? std::optional(mac) : std::nullopt;
}

std::optional<inet::Ipv4Address> ipv4_from_gid(const Gid& gid) {
  return inet::ipv4_of(ipv6_from_gid(gid));
}

inet::Ipv6Address ipv6_from_gid(const Gid& gid) { return {gid.bytes}; }

bool is_multicast(const Gid& gid) { return multicast_mac(gid).has_value(); }

std::optional<inet::MacAddress> multicast_mac(const Gid& gid) {
  const auto& g = gid.bytes;
  if (const auto ipv4 = ipv4_from_gid(gid); ipv4 && ipv4->is_multicast()) {
    return inet::MacAddress{
        {0x01, 0x00, 0x5E, static_cast<std::uint8_t>(g[13] & 0x7F), g[14], g[15]}};
  }
  if (ipv6_from_gid(gid).is_multicast()) {
    return inet::MacAddress{{0x33, 0x33, g[12], g[13], g[14], g[15]}};
  }
  return std::nullopt;
}

bool is_loopback(const Gid& gid) {
  constexpr Gid ipv6_loopback{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  const auto ipv4 = ipv4_from_gid(gid);
  return ipv4 ? ipv4->is_loopback() : gid == ipv6_loopback;
}

std::string to_address_text(const Gid& gid) {
  const auto ipv4 = ipv4_from_gid(gid);
  return ipv4 ? ipv4->to_text() : to_text(gid);
}

std::string to_text(const Gid& gid) { return ipv6_from_gid(gid).to_text(); }

std::string to_long_text(const Gid& gid) {
  std::string text;
  for (std::size_t i = 0; i < gid.bytes.size(); i += 2) {
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid.bytes[i], gid.bytes[i + 1]);
  }
  return text;
}

std::optional<Gid> gid_from_text(std::string_view text) {
  if (const auto ipv4 = inet::Ipv4Address::from_text(text)) {
    return gid_from_ipv4(*ipv4);
  }
  if (const auto ipv6 = inet::Ipv6Address::from_text(text)) {
    return gid_from_ipv6(*ipv6);
  }
  return std::nullopt;
}

}  // namespace verbena::roce
