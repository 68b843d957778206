#include "proto/inet/parse.h"

#include <fmt/format.h>

namespace verbena::inet {
namespace {

using Kind = ParseError::Kind;

std::unexpected<ParseError> error(Kind kind, std::size_t expected, std::size_t got) {
  return std::unexpected(ParseError{kind, expected, got});
}

bool is_vlan(std::uint16_t ethertype) {
  return ethertype == ethertype_vlan || ethertype == ethertype_service_vlan;
}

}  // namespace

Result<EthernetFrame, ParseError> parse_ethernet(ByteView frame) {
  if (frame.size() < ethernet_header_bytes) {
    return error(Kind::ethernet_truncated, ethernet_header_bytes, frame.size());
  }
  EthernetFrame result;
  result.header = read_struct<EthernetHeader>(frame);
  result.ethertype = result.header.ethertype.value();
  std::size_t header_bytes = ethernet_header_bytes;
  for (unsigned tags = 0; tags < vlan_tags_max && is_vlan(result.ethertype); ++tags) {
    if (frame.size() < header_bytes + vlan_tag_bytes) {
      return error(Kind::ethernet_truncated, header_bytes + vlan_tag_bytes, frame.size());
    }
    const auto tag = read_struct<VlanTag>(frame.subspan(header_bytes));
    if (!result.vlan_control) {
      result.vlan_control = tag.control.value();
    }
    result.ethertype = tag.ethertype.value();
    header_bytes += vlan_tag_bytes;
  }
  result.payload = frame.subspan(header_bytes);
  return result;
}

Result<Ipv4Packet, ParseError> parse_ipv4(ByteView bytes) {
  if (bytes.size() < ipv4_header_bytes) {
    return error(Kind::ipv4_truncated, ipv4_header_bytes, bytes.size());
  }
  const auto header = read_struct<Ipv4Header>(bytes);
  if (header.version() != 4) {
    return error(Kind::ipv4_version, 4, header.version());
  }
  if (header.header_bytes() < ipv4_header_bytes) {
    return error(Kind::ipv4_header_length, ipv4_header_bytes, header.header_bytes());
  }
  if (header.header_bytes() > ipv4_header_bytes) {
    return error(Kind::ipv4_options, ipv4_header_bytes, header.header_bytes());
  }
  if (internet_checksum(bytes.first(ipv4_header_bytes)) != 0) {
    return error(Kind::ipv4_checksum, ipv4_checksum(header), header.checksum.value());
  }
  const std::size_t total_bytes = header.total_bytes.value();
  if (total_bytes < ipv4_header_bytes || total_bytes > bytes.size()) {
    return error(Kind::ipv4_total_length, total_bytes, bytes.size());
  }
  const unsigned fragment = header.flags_and_offset.value() &
                            (Ipv4Header::flag_more_fragments | Ipv4Header::fragment_offset_mask);
  if (fragment != 0) {
    return error(Kind::ipv4_fragment, 0, fragment);
  }
  const ByteView datagram = bytes.first(total_bytes);
  return Ipv4Packet{header, datagram, datagram.subspan(ipv4_header_bytes)};
}

Result<Ipv6Packet, ParseError> parse_ipv6(ByteView bytes) {
  if (bytes.size() < ipv6_header_bytes) {
    return error(Kind::ipv6_truncated, ipv6_header_bytes, bytes.size());
  }
  const auto header = read_struct<Ipv6Header>(bytes);
  if (header.version() != 6) {
    return error(Kind::ipv6_version, 6, header.version());
  }
  const std::size_t payload_bytes = header.payload_bytes.value();
  if (payload_bytes > bytes.size() - ipv6_header_bytes) {
    return error(Kind::ipv6_payload_length, payload_bytes, bytes.size() - ipv6_header_bytes);
  }
  const ByteView datagram = bytes.first(ipv6_header_bytes + payload_bytes);
  return Ipv6Packet{header, datagram, datagram.subspan(ipv6_header_bytes)};
}

Result<UdpDatagram, ParseError> parse_udp(ByteView bytes) {
  if (bytes.size() < udp_header_bytes) {
    return error(Kind::udp_truncated, udp_header_bytes, bytes.size());
  }
  const auto header = read_struct<UdpHeader>(bytes);
  const std::size_t length_bytes = header.length_bytes.value();
  if (length_bytes < udp_header_bytes || length_bytes > bytes.size()) {
    return error(Kind::udp_length, length_bytes, bytes.size());
  }
  return UdpDatagram{header, bytes.first(length_bytes).subspan(udp_header_bytes)};
}

std::string describe(const ParseError& error) {
  const auto [kind, expected, got] = error;
  switch (kind) {
    case Kind::ethernet_truncated:
      return fmt::format("an Ethernet header needs {} bytes, got {}", expected, got);
    case Kind::ipv4_truncated:
      return fmt::format("an IPv4 header needs {} bytes, got {}", expected, got);
    case Kind::ipv4_version:
    case Kind::ipv6_version:
      return fmt::format("IP version {} expected, got {}", expected, got);
    case Kind::ipv4_header_length:
      return fmt::format("IPv4 header length of at least {} bytes expected, got {}", expected, got);
    case Kind::ipv4_options:
      return fmt::format("IPv4 options are not supported: header of {} bytes expected, got {}",
                         expected, got);
    case Kind::ipv4_checksum:
      return fmt::format("IPv4 header checksum {:#06x} expected, got {:#06x}", expected, got);
    case Kind::ipv4_total_length:
      return fmt::format("IPv4 total length is {} bytes, {} are there", expected, got);
    case Kind::ipv4_fragment:
      return fmt::format("IPv4 fragment (flags and offset {:#06x})", got);
    case Kind::ipv6_truncated:
      return fmt::format("an IPv6 header needs {} bytes, got {}", expected, got);
    case Kind::ipv6_payload_length:
      return fmt::format("IPv6 payload length is {} bytes, {} are there", expected, got);
    case Kind::udp_truncated:
      return fmt::format("a UDP header needs {} bytes, got {}", expected, got);
    case Kind::udp_length:
      return fmt::format("UDP length is {} bytes, {} are there", expected, got);
  }
  return "unknown error";
}

}  // namespace verbena::inet
