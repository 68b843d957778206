// Ethernet, IPv4, IPv6 and UDP headers as structs that can be laid on the RFCs' figures, and the
// internet checksum. Fields are big-endian by type; a default-constructed header is all zeros.
// Read first: IEEE 802.3 (Ethernet), 802.1Q (VLAN), RFC 791 (IPv4), RFC 8200 (IPv6), RFC 768 (UDP).
#pragma once

#include <boost/endian/buffers.hpp>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "proto/inet/ip_address.h"
#include "proto/inet/mac_address.h"

namespace verbena::inet {

inline constexpr std::uint16_t ethertype_ipv4 = 0x0800;
inline constexpr std::uint16_t ethertype_arp = 0x0806;
inline constexpr std::uint16_t ethertype_vlan = 0x8100;          ///< 802.1Q customer tag.
inline constexpr std::uint16_t ethertype_service_vlan = 0x88A8;  ///< 802.1ad service tag.
inline constexpr std::uint16_t ethertype_ipv6 = 0x86DD;
inline constexpr std::uint16_t ethertype_roce_v1 = 0x8915;

inline constexpr std::uint8_t ip_protocol_tcp = 6;
inline constexpr std::uint8_t ip_protocol_udp = 17;

/// The shortest Ethernet frame without its FCS (IEEE 802.3, 4A.4.2: 64 octets with it).
inline constexpr std::size_t ethernet_frame_bytes_min = 60;

struct EthernetHeader {
  MacAddress destination;
  MacAddress source;
  boost::endian::big_uint16_buf_t ethertype{};
};
inline constexpr std::size_t ethernet_header_bytes = 14;
static_assert(is_wire_struct<EthernetHeader, ethernet_header_bytes>);

/// What stands between an EtherType of 0x8100 or 0x88A8 and the frame's real one (802.1Q, 9.6).
struct VlanTag {
  /// Priority (3 bits), drop eligible (1), VLAN identifier (12).
  boost::endian::big_uint16_buf_t control{};
  boost::endian::big_uint16_buf_t ethertype{};
};
inline constexpr std::size_t vlan_tag_bytes = 4;
static_assert(is_wire_struct<VlanTag, vlan_tag_bytes>);

/// An IPv4 header without options (RFC 791, 3.1).
struct Ipv4Header {
  static constexpr std::uint8_t version_and_length_plain = 0x45;  ///< Version 4, five words.
  static constexpr std::uint16_t flag_dont_fragment = 0x4000;
  static constexpr std::uint16_t flag_more_fragments = 0x2000;
  static constexpr std::uint16_t fragment_offset_mask = 0x1FFF;

  std::uint8_t version_and_length = 0;
  std::uint8_t type_of_service = 0;  ///< DSCP (6 bits), ECN (2): RFC 2474, RFC 3168.
  boost::endian::big_uint16_buf_t total_bytes{};
  boost::endian::big_uint16_buf_t identification{};
  boost::endian::big_uint16_buf_t flags_and_offset{};
  std::uint8_t time_to_live = 0;
  std::uint8_t protocol = 0;
  boost::endian::big_uint16_buf_t checksum{};
  Ipv4Address source;
  Ipv4Address destination;

  [[nodiscard]] unsigned version() const { return version_and_length >> 4; }
  [[nodiscard]] std::size_t header_bytes() const {
    return std::size_t{version_and_length & 0x0FU} * 4;
  }
};
inline constexpr std::size_t ipv4_header_bytes = 20;
static_assert(is_wire_struct<Ipv4Header, ipv4_header_bytes>);

/// RFC 8200, 3.
struct Ipv6Header {
  boost::endian::big_uint32_buf_t version_class_flow{};  ///< 4, 8 and 20 bits.
  boost::endian::big_uint16_buf_t payload_bytes{};
  std::uint8_t next_header = 0;
  std::uint8_t hop_limit = 0;
  Ipv6Address source;
  Ipv6Address destination;

  [[nodiscard]] unsigned version() const { return version_class_flow.value() >> 28; }
  [[nodiscard]] std::uint8_t traffic_class() const {
    return static_cast<std::uint8_t>(version_class_flow.value() >> 20);
  }
  [[nodiscard]] std::uint32_t flow_label() const { return version_class_flow.value() & 0xF'FFFF; }
  /// Sets version 6 and the two others; `flow_label` keeps its low 20 bits.
  void set_class_and_flow(std::uint8_t traffic_class, std::uint32_t flow_label) {
    version_class_flow = 6U << 28 | std::uint32_t{traffic_class} << 20 | (flow_label & 0xF'FFFF);
  }
};
inline constexpr std::size_t ipv6_header_bytes = 40;
static_assert(is_wire_struct<Ipv6Header, ipv6_header_bytes>);

struct UdpHeader {
  boost::endian::big_uint16_buf_t source_port{};
  boost::endian::big_uint16_buf_t destination_port{};
  boost::endian::big_uint16_buf_t length_bytes{};  ///< This header and what follows.
  boost::endian::big_uint16_buf_t checksum{};      ///< 0: none.
};
inline constexpr std::size_t udp_header_bytes = 8;
static_assert(is_wire_struct<UdpHeader, udp_header_bytes>);

/// The internet checksum (RFC 1071) of `bytes`, which is 0 over a header that carries the right
/// one.
[[nodiscard]] std::uint16_t internet_checksum(ByteView bytes);

/// The checksum that belongs into `header`, whatever its checksum field holds now.
[[nodiscard]] std::uint16_t ipv4_checksum(const Ipv4Header& header);

}  // namespace verbena::inet
