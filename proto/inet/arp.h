// ARP for IPv4 over Ethernet (RFC 826): the packet, and reading it out of hostile bytes.
#pragma once

#include <boost/endian/buffers.hpp>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "proto/inet/headers.h"

namespace verbena::inet {

struct ArpPacket {
  static constexpr std::uint16_t hardware_ethernet = 1;
  static constexpr std::uint16_t operation_request = 1;
  static constexpr std::uint16_t operation_reply = 2;

  boost::endian::big_uint16_buf_t hardware{hardware_ethernet};
  boost::endian::big_uint16_buf_t protocol{ethertype_ipv4};
  std::uint8_t hardware_bytes = sizeof(MacAddress);
  std::uint8_t protocol_bytes = sizeof(Ipv4Address);
  boost::endian::big_uint16_buf_t operation{};
  MacAddress sender_mac{};
  Ipv4Address sender{};
  MacAddress target_mac{};
  Ipv4Address target{};
};
inline constexpr std::size_t arp_packet_bytes = 28;
static_assert(is_wire_struct<ArpPacket, arp_packet_bytes>);

/// `bytes` is what follows the Ethernet header. nullopt if it is no ARP of IPv4 over Ethernet, or
/// if its sender can't be one: a group's Ethernet address.
[[nodiscard]] std::optional<ArpPacket> parse_arp(ByteView bytes);

}  // namespace verbena::inet
