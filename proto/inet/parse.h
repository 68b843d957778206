// Reading Ethernet, IP and UDP headers out of hostile bytes, with the reason when they are no such
// thing. Each function looks at one layer and bounds the next by that layer's own length field, so
// trailing bytes (Ethernet padding) never reach the layer above.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "proto/inet/headers.h"

namespace verbena::inet {

struct ParseError {
  enum class Kind : std::uint8_t {
    ethernet_truncated,   ///< Shorter than its header and tags. expected/got: bytes.
    ipv4_truncated,       ///< Shorter than an IPv4 header. expected/got: bytes.
    ipv4_version,         ///< expected/got: versions.
    ipv4_header_length,   ///< Less than five words. expected/got: bytes.
    ipv4_options,         ///< More than five words, which we don't read. expected/got: bytes.
    ipv4_checksum,        ///< expected/got: checksums.
    ipv4_total_length,    ///< Less than the header, or more than there is (got). In bytes.
    ipv4_fragment,        ///< A fragment. got: flags and offset.
    ipv6_truncated,       ///< Shorter than an IPv6 header. expected/got: bytes.
    ipv6_version,         ///< expected/got: versions.
    ipv6_payload_length,  ///< More than there is (got). In bytes.
    udp_truncated,        ///< Shorter than a UDP header. expected/got: bytes.
    udp_length,           ///< Less than the header, or more than there is (got). In bytes.
  };
  Kind kind{};
  std::size_t expected = 0;
  std::size_t got = 0;

  friend constexpr bool operator==(const ParseError&, const ParseError&) = default;
};

/// The error in words: "IPv4 total length is 84 bytes, only 60 are there".
[[nodiscard]] std::string describe(const ParseError& error);

struct EthernetFrame {
  EthernetHeader header;
  /// TCI of the outermost VLAN tag, if there is one.
  std::optional<std::uint16_t> vlan_control;
  std::uint16_t ethertype = 0;  ///< Behind all VLAN tags.
  ByteView payload;             ///< With trailing padding, if there is any.
};
/// VLAN tags on a frame: a service tag and a customer tag.
inline constexpr unsigned vlan_tags_max = 2;
[[nodiscard]] Result<EthernetFrame, ParseError> parse_ethernet(ByteView frame);

struct Ipv4Packet {
  Ipv4Header header;
  ByteView datagram;  ///< The header and all that its total length covers.
  ByteView payload;
};
[[nodiscard]] Result<Ipv4Packet, ParseError> parse_ipv4(ByteView bytes);

struct Ipv6Packet {
  Ipv6Header header;
  ByteView datagram;  ///< The header and all that its payload length covers.
  ByteView payload;   ///< With extension headers, if there are any.
};
[[nodiscard]] Result<Ipv6Packet, ParseError> parse_ipv6(ByteView bytes);

struct UdpDatagram {
  UdpHeader header;
  ByteView payload;
};
/// Does not look at the checksum.
[[nodiscard]] Result<UdpDatagram, ParseError> parse_udp(ByteView bytes);

}  // namespace verbena::inet
