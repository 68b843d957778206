#include "ports/udp_segments.h"

#include <algorithm>

#include "base/check.h"
#include "nic_model/types.h"
#include "proto/roce/encap.h"

namespace verbena::ports {

UdpSegments::UdpSegments() : buffer_(udp_frame_prefix_bytes + UdpBatch::payload_bytes_max) {}

void UdpSegments::begin(const UdpArrival& arrival, inet::Ipv4Address address) {
  VERBENA_CHECK(arrival.bytes <= UdpBatch::payload_bytes_max && arrival.segment_bytes > 0);
  arrival_ = arrival;
  next_byte_ = 0;
  pending_ = true;
  likely_identification_ = 0;
  ethernet_.destination = nic::mac_of(address);
  ethernet_.source = nic::mac_of(arrival.peer);
  ethernet_.ethertype = inet::ethertype_ipv4;
  ip_.version_and_length = inet::Ipv4Header::version_and_length_plain;
  ip_.type_of_service = arrival.traffic_class;
  ip_.flags_and_offset = inet::Ipv4Header::flag_dont_fragment;
  ip_.time_to_live = arrival.hop_limit;
  ip_.protocol = inet::ip_protocol_udp;
  ip_.source = arrival.peer;
  ip_.destination = address;
}

UdpSegments::Frame UdpSegments::next() {
  VERBENA_CHECK(pending());
  const std::size_t bytes = std::min(arrival_.segment_bytes, arrival_.bytes - next_byte_);
  const MutableBytes frame =
      MutableBytes(buffer_).subspan(next_byte_, udp_frame_prefix_bytes + bytes);
  next_byte_ += bytes;
  pending_ = next_byte_ < arrival_.bytes;

  inet::UdpHeader udp;
  udp.source_port = arrival_.peer_port;
  udp.destination_port = roce::udp_port;
  udp.length_bytes = static_cast<std::uint16_t>(inet::udp_header_bytes + bytes);
  ip_.total_bytes =
      static_cast<std::uint16_t>(inet::ipv4_header_bytes + inet::udp_header_bytes + bytes);
  ip_.identification = likely_identification_;
  write_struct(frame, ethernet_);
  const MutableBytes packet = frame.subspan(inet::ethernet_header_bytes);
  write_struct(packet.subspan(inet::ipv4_header_bytes), udp);
  write_struct(packet, ip_);

  const auto identification = solver_.solve(packet);
  ip_.identification = identification.value_or(likely_identification_);
  ip_.checksum = inet::ipv4_checksum(ip_);
  write_struct(packet, ip_);
  likely_identification_ = static_cast<std::uint16_t>(ip_.identification.value() + 1);
  return {.bytes = frame, .icrc_is_good = identification.has_value()};
}

}  // namespace verbena::ports
