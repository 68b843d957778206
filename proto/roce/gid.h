// GIDs of RoCE ports and what they say about IP and Ethernet addresses.
// Read first: IBTA vol 1, annex A16.5 (RoCE addressing) and A17.4.5 (RoCE v2: GIDs are IP
// addresses).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "proto/gid.h"
#include "proto/inet/ip_address.h"
#include "proto/inet/mac_address.h"

namespace verbena::roce {

/// The IPv4-mapped GID ::ffff:a.b.c.d (RFC 4291, 2.5.5.2).
[[nodiscard]] Gid gid_from_ipv4(inet::Ipv4Address address);
[[nodiscard]] Gid gid_from_ipv6(const inet::Ipv6Address& address);
/// The link-local GID of a port: fe80::/64 with the modified EUI-64 of its MAC (RFC 4291, A).
[[nodiscard]] Gid gid_link_local(const inet::MacAddress& mac);

/// The MAC address behind a link-local GID that was made of one; nullopt for any other GID.
[[nodiscard]] std::optional<inet::MacAddress> mac_from_link_local(const Gid& gid);

/// The address behind an IPv4-mapped GID; nullopt for any other GID.
[[nodiscard]] std::optional<inet::Ipv4Address> ipv4_from_gid(const Gid& gid);
[[nodiscard]] inet::Ipv6Address ipv6_from_gid(const Gid& gid);

/// Multicast: ff00::/8, or an IPv4-mapped address of 224.0.0.0/4.
[[nodiscard]] bool is_multicast(const Gid& gid);
/// The MAC address of a multicast GID: 01:00:5e and 23 bits for IPv4 (RFC 1112, 6.4), 33:33 and 32
/// bits for IPv6 (RFC 2464, 7). nullopt for a unicast GID.
[[nodiscard]] std::optional<inet::MacAddress> multicast_mac(const Gid& gid);

/// 127.0.0.0/8 (RFC 1122, 3.2.1.3) and ::1 (RFC 4291, 2.5.3).
[[nodiscard]] bool is_loopback(const Gid& gid);

/// As programs write the address: "127.0.0.1", "fe80::1".
[[nodiscard]] std::string to_address_text(const Gid& gid);
/// As an IPv6 address is written: "::ffff:127.0.0.1", "fe80::1".
[[nodiscard]] std::string to_text(const Gid& gid);
/// As sysfs and ibv_devinfo write it: eight groups of four digits.
[[nodiscard]] std::string to_long_text(const Gid& gid);
/// Reads an IPv6 address, or an IPv4 one, which gives its mapped GID.
[[nodiscard]] std::optional<Gid> gid_from_text(std::string_view text);

}  // namespace verbena::roce
