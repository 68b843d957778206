#include "ports/udp_segments.h"

#include <algorithm>

#include "base/check.h"
#include "nic_model/types.h"
#include "proto/ib_bth/headers.h"
#include "proto/roce/encap.h"
#include "proto/roce/gid.h"
#include "proto/roce/icrc.h"

namespace verbena::ports {

namespace {

/// What a UDP length of 16 bits can tell.
constexpr std::size_t arrival_bytes_max = 0xFFFF;

}  // namespace

UdpSegments::UdpSegments() : buffer_(udp_frame_prefix_bytes_max + arrival_bytes_max) {}

void UdpSegments::begin(const UdpArrival& arrival, const Gid& address) {
  VERBENA_CHECK(arrival.bytes <= arrival_bytes_max && arrival.segment_bytes > 0);
  arrival_ = arrival;
  address_ = address;
  next_byte_ = 0;
  pending_ = true;
  likely_identification_ = 0;
  const auto source = roce::ipv4_from_gid(arrival.peer);
  const auto destination = roce::ipv4_from_gid(address);
  VERBENA_CHECK(source.has_value() == destination.has_value());
  is_ipv4_ = source.has_value();
  ethernet_.destination = nic::mac_of(address);
  ethernet_.source = nic::mac_of(arrival.peer);
  ethernet_.ethertype = is_ipv4_ ? inet::ethertype_ipv4 : inet::ethertype_ipv6;
  if (is_ipv4_) {
    ipv4_.version_and_length = inet::Ipv4Header::version_and_length_plain;
    ipv4_.type_of_service = arrival.traffic_class;
    ipv4_.flags_and_offset = inet::Ipv4Header::flag_dont_fragment;
    ipv4_.time_to_live = arrival.hop_limit;
    ipv4_.protocol = inet::ip_protocol_udp;
    ipv4_.source = *source;
    ipv4_.destination = *destination;
  } else {
    ipv6_.set_class_and_flow(arrival.traffic_class, arrival.flow_label);
    ipv6_.next_header = inet::ip_protocol_udp;
    ipv6_.hop_limit = arrival.hop_limit;
    ipv6_.source = roce::ipv6_from_gid(arrival.peer);
    ipv6_.destination = roce::ipv6_from_gid(address);
  }
}

NetworkFrame UdpSegments::next() {
  VERBENA_CHECK(pending());
  const std::size_t bytes = std::min(arrival_.segment_bytes, arrival_.bytes - next_byte_);
  const std::size_t prefix_bytes = udp_frame_prefix_bytes(is_ipv4_);
  const MutableBytes frame = MutableBytes(buffer_).subspan(
      udp_frame_prefix_bytes_max + next_byte_ - prefix_bytes, prefix_bytes + bytes);
  next_byte_ += bytes;
  pending_ = next_byte_ < arrival_.bytes;

  write_struct(frame, ethernet_);
  const MutableBytes packet = frame.subspan(inet::ethernet_header_bytes);
  const bool icrc_is_good = is_ipv4_ ? finish_ipv4(packet) : finish_ipv6(packet);
  NetworkFrame result{.bytes = frame,
                      .icrc_is_good = icrc_is_good,
                      .route = {.source = arrival_.peer, .destination = address_}};
  if (icrc_is_good) {
    result.route.destination_qpn = read_struct<ib::Bth>(frame.subspan(prefix_bytes)).dest_qpn();
  }
  return result;
}

inet::UdpHeader UdpSegments::udp_header(std::size_t payload_bytes) const {
  inet::UdpHeader udp;
  udp.source_port = arrival_.peer_port;
  udp.destination_port = roce::udp_port;
  udp.length_bytes = static_cast<std::uint16_t>(inet::udp_header_bytes + payload_bytes);
  return udp;
}

bool UdpSegments::finish_ipv4(MutableBytes packet) {
  const std::size_t headers_bytes = inet::ipv4_header_bytes + inet::udp_header_bytes;
  ipv4_.total_bytes = static_cast<std::uint16_t>(packet.size());
  ipv4_.identification = likely_identification_;
  write_struct(packet, ipv4_);
  write_struct(packet.subspan(inet::ipv4_header_bytes), udp_header(packet.size() - headers_bytes));

  const auto identification = solver_.solve(packet);
  ipv4_.identification = identification.value_or(likely_identification_);
  ipv4_.checksum = inet::ipv4_checksum(ipv4_);
  write_struct(packet, ipv4_);
  likely_identification_ = static_cast<std::uint16_t>(ipv4_.identification.value() + 1);
  return identification.has_value();
}

bool UdpSegments::finish_ipv6(MutableBytes packet) {
  const std::size_t udp_bytes = packet.size() - inet::ipv6_header_bytes;
  ipv6_.payload_bytes = static_cast<std::uint16_t>(udp_bytes);
  write_struct(packet, ipv6_);
  write_struct(packet.subspan(inet::ipv6_header_bytes),
               udp_header(udp_bytes - inet::udp_header_bytes));
  constexpr auto version = roce::Version::v2_ipv6;
  return packet.size() >= roce::network_and_bth_bytes(version) + roce::icrc_bytes &&
         roce::verify_icrc(version, packet);
}

}  // namespace verbena::ports
