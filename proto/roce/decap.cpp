#include "proto/roce/decap.h"

#include <fmt/format.h>

#include <algorithm>

#include "proto/ib_bth/headers.h"
#include "proto/roce/encap.h"
#include "proto/roce/gid.h"

namespace verbena::roce {
namespace {

using Kind = FrameError::Kind;

std::unexpected<FrameError> error(Kind kind, std::size_t expected = 0, std::size_t got = 0) {
  return std::unexpected(FrameError{kind, expected, got, {}});
}

std::unexpected<FrameError> inet_error(const inet::ParseError& reason) {
  return std::unexpected(FrameError{Kind::inet, reason.expected, reason.got, reason});
}

/// The part of a frame that all versions fill alike.
RoceFrame common_part(const inet::EthernetFrame& ethernet, Version version) {
  RoceFrame frame;
  frame.version = version;
  frame.destination_mac = ethernet.header.destination;
  frame.source_mac = ethernet.header.source;
  frame.vlan_control = ethernet.vlan_control;
  return frame;
}

/// Sets where packet and transport lie. `payload` is what follows the network headers in `packet`.
Result<RoceFrame, FrameError> with_payload(RoceFrame frame, ByteView packet, ByteView payload) {
  constexpr std::size_t payload_bytes_min = ib::bth_bytes + icrc_bytes;
  if (payload.size() < payload_bytes_min) {
    return error(Kind::too_short, payload_bytes_min, payload.size());
  }
  frame.packet = packet;
  frame.transport = payload.first(payload.size() - icrc_bytes);
  return frame;
}

Result<RoceFrame, FrameError> parse_v1(const inet::EthernetFrame& ethernet) {
  const ByteView bytes = ethernet.payload;
  if (bytes.size() < ib::grh_bytes) {
    return error(Kind::grh_truncated, ib::grh_bytes, bytes.size());
  }
  const auto grh = read_struct<ib::Grh>(bytes);
  if (grh.ip_version() != ib::Grh::ip_version_wanted) {
    return error(Kind::grh_version, ib::Grh::ip_version_wanted, grh.ip_version());
  }
  if (grh.next_header() != ib::Grh::next_header_ib) {
    return error(Kind::grh_next_header, ib::Grh::next_header_ib, grh.next_header());
  }
  const ByteView rest = bytes.subspan(ib::grh_bytes);
  if (grh.payload_bytes() > rest.size()) {
    return error(Kind::grh_payload_length, grh.payload_bytes(), rest.size());
  }
  RoceFrame frame = common_part(ethernet, Version::v1);
  frame.source = grh.source();
  frame.destination = grh.destination();
  frame.traffic_class = grh.traffic_class();
  frame.hop_limit = grh.hop_limit();
  frame.flow_label = grh.flow_label();
  return with_payload(frame, bytes.first(ib::grh_bytes + grh.payload_bytes()),
                      rest.first(grh.payload_bytes()));
}

/// Whether bytes that follow an IP header name UDP port 4791, before anything has been checked:
/// only such packets can be malformed RoCE. Bytes that end before the port do too, so that parsing
/// tells what is missing.
bool claims_roce_port(ByteView ip_payload) {
  constexpr std::size_t port_end = offsetof(inet::UdpHeader, length_bytes);
  if (ip_payload.size() < port_end) {
    return true;
  }
  const ByteView port = ip_payload.subspan(offsetof(inet::UdpHeader, destination_port));
  return read_struct<boost::endian::big_uint16_buf_t>(port).value() == udp_port;
}

/// `ip_payload` begins with the UDP header; it is the end of `datagram`.
Result<RoceFrame, FrameError> parse_v2(RoceFrame frame, ByteView datagram, ByteView ip_payload) {
  const auto udp = inet::parse_udp(ip_payload);
  if (!udp) {
    return inet_error(udp.error());
  }
  frame.udp_source_port = udp->header.source_port.value();
  frame.udp_checksum = udp->header.checksum.value();
  const std::size_t behind_udp_bytes = ip_payload.size() - udp->header.length_bytes.value();
  return with_payload(frame, datagram.first(datagram.size() - behind_udp_bytes), udp->payload);
}

Result<RoceFrame, FrameError> parse_v2_ipv4(const inet::EthernetFrame& ethernet) {
  const ByteView bytes = ethernet.payload;
  if (bytes.size() >= inet::ipv4_header_bytes) {
    const auto header = read_struct<inet::Ipv4Header>(bytes);
    const ByteView rest = bytes.subspan(std::min(header.header_bytes(), bytes.size()));
    if (header.protocol != inet::ip_protocol_udp || !claims_roce_port(rest)) {
      return error(Kind::not_roce);
    }
  }
  const auto ip = inet::parse_ipv4(bytes);
  if (!ip) {
    return inet_error(ip.error());
  }
  RoceFrame frame = common_part(ethernet, Version::v2_ipv4);
  frame.source = gid_from_ipv4(ip->header.source);
  frame.destination = gid_from_ipv4(ip->header.destination);
  frame.traffic_class = ip->header.type_of_service;
  frame.hop_limit = ip->header.time_to_live;
  frame.identification = ip->header.identification.value();
  return parse_v2(frame, ip->datagram, ip->payload);
}

Result<RoceFrame, FrameError> parse_v2_ipv6(const inet::EthernetFrame& ethernet) {
  const ByteView bytes = ethernet.payload;
  if (bytes.size() >= inet::ipv6_header_bytes) {
    const auto header = read_struct<inet::Ipv6Header>(bytes);
    if (header.next_header != inet::ip_protocol_udp ||
        !claims_roce_port(bytes.subspan(inet::ipv6_header_bytes))) {
      return error(Kind::not_roce);
    }
  }
  const auto ip = inet::parse_ipv6(bytes);
  if (!ip) {
    return inet_error(ip.error());
  }
  RoceFrame frame = common_part(ethernet, Version::v2_ipv6);
  frame.source = gid_from_ipv6(ip->header.source);
  frame.destination = gid_from_ipv6(ip->header.destination);
  frame.traffic_class = ip->header.traffic_class();
  frame.hop_limit = ip->header.hop_limit;
  frame.flow_label = ip->header.flow_label();
  return parse_v2(frame, ip->datagram, ip->payload);
}

}  // namespace

ByteView RoceFrame::network_header() const {
  return packet.first(version == Version::v2_ipv4 ? inet::ipv4_header_bytes : ib::grh_bytes);
}

Result<RoceFrame, FrameError> parse_frame(ByteView frame) {
  const auto ethernet = inet::parse_ethernet(frame);
  if (!ethernet) {
    return inet_error(ethernet.error());
  }
  switch (ethernet->ethertype) {
    case inet::ethertype_roce_v1:
      return parse_v1(*ethernet);
    case inet::ethertype_ipv4:
      return parse_v2_ipv4(*ethernet);
    case inet::ethertype_ipv6:
      return parse_v2_ipv6(*ethernet);
    default:
      return error(Kind::not_roce);
  }
}

std::string describe(const FrameError& error) {
  switch (error.kind) {
    case Kind::not_roce:
      return "not RoCE";
    case Kind::inet:
      return describe(error.inet);
    case Kind::grh_truncated:
      return fmt::format("a GRH needs {} bytes, got {}", error.expected, error.got);
    case Kind::grh_version:
      return fmt::format("GRH with IP version {} expected, got {}", error.expected, error.got);
    case Kind::grh_next_header:
      return fmt::format("GRH with next header {:#04x} expected, got {:#04x}", error.expected,
                         error.got);
    case Kind::grh_payload_length:
      return fmt::format("GRH payload length is {} bytes, {} are there", error.expected, error.got);
    case Kind::too_short:
      return fmt::format("BTH and ICRC need {} bytes, got {}", error.expected, error.got);
  }
  return "unknown error";
}

}  // namespace verbena::roce
