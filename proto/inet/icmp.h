// ICMP as far as a host on a link needs it: echo (RFC 792, RFC 4443) and IPv6 neighbour discovery
// (RFC 4861), as structs and out of hostile bytes.
#pragma once

#include <boost/endian/buffers.hpp>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "proto/inet/headers.h"

namespace verbena::inet {

inline constexpr std::uint8_t ip_protocol_icmp = 1;
inline constexpr std::uint8_t ip_protocol_icmpv6 = 58;

/// The first bytes of every message.
struct IcmpHeader {
  std::uint8_t type = 0;
  std::uint8_t code = 0;
  boost::endian::big_uint16_buf_t checksum{};
};
inline constexpr std::size_t icmp_header_bytes = 4;
static_assert(is_wire_struct<IcmpHeader, icmp_header_bytes>);

namespace icmp_type {
inline constexpr std::uint8_t echo_reply = 0;
inline constexpr std::uint8_t echo_request = 8;
}  // namespace icmp_type

namespace icmpv6_type {
inline constexpr std::uint8_t echo_request = 128;
inline constexpr std::uint8_t echo_reply = 129;
inline constexpr std::uint8_t neighbour_solicitation = 135;
inline constexpr std::uint8_t neighbour_advertisement = 136;
}  // namespace icmpv6_type

/// Identifier and sequence number follow the header.
inline constexpr std::size_t icmp_echo_bytes_min = 8;

/// A neighbour solicitation or advertisement (RFC 4861, 4.3 and 4.4), without options.
struct NeighbourMessage {
  static constexpr std::uint32_t flag_solicited = 0x4000'0000;
  static constexpr std::uint32_t flag_override = 0x2000'0000;

  IcmpHeader header;
  boost::endian::big_uint32_buf_t flags{};
  Ipv6Address target;
};
inline constexpr std::size_t neighbour_message_bytes = 24;
static_assert(is_wire_struct<NeighbourMessage, neighbour_message_bytes>);

/// The option that tells an Ethernet address (RFC 4861, 4.6.1).
struct LinkLayerOption {
  static constexpr std::uint8_t source = 1;
  static constexpr std::uint8_t target = 2;

  std::uint8_t type = 0;
  std::uint8_t words = 1;  ///< Of eight bytes.
  MacAddress mac;
};
inline constexpr std::size_t link_layer_option_bytes = 8;
static_assert(is_wire_struct<LinkLayerOption, link_layer_option_bytes>);

/// Neighbour discovery lives on one link: a router would have counted down (RFC 4861, 7.1).
inline constexpr std::uint8_t neighbour_hop_limit = 255;

struct NeighbourNotice {
  bool is_solicitation = false;
  bool is_solicited = false;
  /// The sender is about to take `target` for itself (RFC 4862, 5.4).
  bool is_probe = false;
  Ipv6Address target;
  /// Of the source of a solicitation, of the target of an advertisement.
  std::optional<MacAddress> mac{};
};

/// The message of an IPv6 packet whose checksum is right; nullopt if it is none, or not valid
/// (RFC 4861, 7.1.1 and 7.1.2).
[[nodiscard]] std::optional<NeighbourNotice> parse_neighbour_message(const Ipv6Header& header,
                                                                     ByteView message);

/// The group in which the owner of an address is asked for (RFC 4291, 2.7.1).
[[nodiscard]] Ipv6Address solicited_node_group(const Ipv6Address& address);
/// The Ethernet address of an IPv6 group (RFC 2464, 7).
[[nodiscard]] MacAddress mac_of_group(const Ipv6Address& group);
/// ff02::1 (RFC 4291, 2.7.1).
[[nodiscard]] Ipv6Address all_nodes_group();

}  // namespace verbena::inet
