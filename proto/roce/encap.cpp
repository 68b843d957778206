#include "proto/roce/encap.h"

#include <algorithm>

#include "proto/ib_bth/headers.h"
#include "proto/roce/gid.h"

namespace verbena::roce {
namespace {

// Offsets from the IP header or GRH.
constexpr std::size_t ipv4_total_offset = offsetof(inet::Ipv4Header, total_bytes);
constexpr std::size_t ipv4_identification_offset = offsetof(inet::Ipv4Header, identification);
constexpr std::size_t ipv4_checksum_offset = offsetof(inet::Ipv4Header, checksum);
constexpr std::size_t ipv6_payload_offset = offsetof(inet::Ipv6Header, payload_bytes);
/// PayLen of a GRH lies where an IPv6 header has it (IBTA vol 1, 8.3).
constexpr std::size_t grh_payload_offset = ipv6_payload_offset;

std::uint16_t ethertype_of(Version version) {
  switch (version) {
    case Version::v1:
      return inet::ethertype_roce_v1;
    case Version::v2_ipv4:
      return inet::ethertype_ipv4;
    case Version::v2_ipv6:
      break;
  }
  return inet::ethertype_ipv6;
}

/// Unless the way leaves it to the sender.
void replace_mac(MutableBytes frame, std::size_t offset, const WayFields::EthernetAddress& mac) {
  if (mac != WayFields::EthernetAddress{}) {
    write_struct(frame.subspan(offset), inet::MacAddress{mac});
  }
}

void store_u16(MutableBytes frame, std::size_t offset, std::size_t value) {
  write_struct(frame.subspan(offset),
               boost::endian::big_uint16_buf_t(static_cast<std::uint16_t>(value)));
}

inet::UdpHeader udp_header(const Path& path) {
  inet::UdpHeader udp;
  udp.source_port = path.udp_source_port;
  udp.destination_port = udp_port;
  return udp;
}

}  // namespace

Encapsulation::Encapsulation(const Path& path, ShortFrames short_frames)
    : path_(path), short_frames_(short_frames) {
  lay_out_ethernet();
  switch (path.version) {
    case Version::v1:
      lay_out_grh();
      break;
    case Version::v2_ipv4:
      lay_out_ipv4();
      break;
    case Version::v2_ipv6:
      lay_out_ipv6();
      break;
  }
}

void Encapsulation::lay_out_ethernet() {
  const boost::endian::big_uint16_buf_t ethertype(ethertype_of(path_.version));
  inet::EthernetHeader ethernet{path_.destination_mac, path_.source_mac, ethertype};
  network_offset_ = inet::ethernet_header_bytes;
  if (path_.vlan_control) {
    ethernet.ethertype = inet::ethertype_vlan;
    const inet::VlanTag tag{boost::endian::big_uint16_buf_t(*path_.vlan_control), ethertype};
    write_struct(MutableBytes(prefix_).subspan(network_offset_), tag);
    network_offset_ += inet::vlan_tag_bytes;
  }
  write_struct(prefix_, ethernet);
}

void Encapsulation::lay_out_ipv4() {
  const auto source = ipv4_from_gid(path_.source);
  const auto destination = ipv4_from_gid(path_.destination);
  VERBENA_CHECK(source && destination);
  inet::Ipv4Header ip;
  ip.version_and_length = inet::Ipv4Header::version_and_length_plain;
  ip.type_of_service = path_.traffic_class;
  ip.identification = path_.identification;
  ip.flags_and_offset = inet::Ipv4Header::flag_dont_fragment;
  ip.time_to_live = path_.hop_limit;
  ip.protocol = inet::ip_protocol_udp;
  ip.source = *source;
  ip.destination = *destination;
  const MutableBytes prefix(prefix_);
  write_struct(prefix.subspan(network_offset_), ip);
  write_struct(prefix.subspan(network_offset_ + sizeof(ip)), udp_header(path_));
  prefix_bytes_ = network_offset_ + sizeof(ip) + sizeof(inet::UdpHeader);
  ipv4_sum_ = static_cast<std::uint16_t>(~inet::ipv4_checksum(ip));
}

void Encapsulation::lay_out_ipv6() {
  inet::Ipv6Header ip;
  ip.set_class_and_flow(path_.traffic_class, path_.flow_label);
  ip.next_header = inet::ip_protocol_udp;
  ip.hop_limit = path_.hop_limit;
  ip.source = ipv6_from_gid(path_.source);
  ip.destination = ipv6_from_gid(path_.destination);
  const MutableBytes prefix(prefix_);
  write_struct(prefix.subspan(network_offset_), ip);
  write_struct(prefix.subspan(network_offset_ + sizeof(ip)), udp_header(path_));
  prefix_bytes_ = network_offset_ + sizeof(ip) + sizeof(inet::UdpHeader);
}

void Encapsulation::lay_out_grh() {
  ib::Grh grh;
  grh.set_ip_version(ib::Grh::ip_version_wanted);
  grh.set_traffic_class(path_.traffic_class);
  grh.set_flow_label(path_.flow_label);
  grh.set_next_header(ib::Grh::next_header_ib);
  grh.set_hop_limit(path_.hop_limit);
  grh.set_source(path_.source);
  grh.set_destination(path_.destination);
  write_struct(MutableBytes(prefix_).subspan(network_offset_), grh);
  prefix_bytes_ = network_offset_ + sizeof(grh);
}

std::size_t Encapsulation::frame_bytes(std::size_t transport_bytes) const {
  const std::size_t bytes = prefix_bytes_ + transport_bytes + icrc_bytes;
  return short_frames_ == ShortFrames::pad ? std::max(bytes, inet::ethernet_frame_bytes_min)
                                           : bytes;
}

void Encapsulation::write_prefix(MutableBytes frame, std::size_t transport_bytes,
                                 const WayFields& way) const {
  VERBENA_CHECK(transport_bytes <= transport_bytes_max);
  copy_bytes(frame, ByteView(prefix_).first(prefix_bytes_));
  replace_mac(frame, offsetof(inet::EthernetHeader, destination), way.destination_mac);
  replace_mac(frame, offsetof(inet::EthernetHeader, source), way.source_mac);
  const MutableBytes network = frame.subspan(network_offset_);
  const std::size_t payload_bytes = transport_bytes + icrc_bytes;
  const std::size_t udp_bytes = inet::udp_header_bytes + payload_bytes;
  const std::size_t udp_offset = prefix_bytes_ - inet::udp_header_bytes;
  const std::size_t udp_length_offset = udp_offset + offsetof(inet::UdpHeader, length_bytes);
  if (way.udp_source_port != 0 && path_.version != Version::v1) {
    store_u16(frame, udp_offset + offsetof(inet::UdpHeader, source_port), way.udp_source_port);
  }
  switch (path_.version) {
    case Version::v1:
      store_u16(network, grh_payload_offset, payload_bytes);
      return;
    case Version::v2_ipv4: {
      const std::size_t total_bytes = inet::ipv4_header_bytes + udp_bytes;
      // RFC 1071: words are added to the sum of the others, the carry comes round. Subtracting a
      // word is adding its complement.
      std::size_t sum = ipv4_sum_ + total_bytes;
      if (way.identification != 0) {
        store_u16(network, ipv4_identification_offset, way.identification);
        sum += std::size_t{0xFFFF} - path_.identification + way.identification;
        sum = (sum & 0xFFFF) + (sum >> 16);
      }
      store_u16(network, ipv4_total_offset, total_bytes);
      store_u16(network, ipv4_checksum_offset, ~((sum & 0xFFFF) + (sum >> 16)));
      store_u16(frame, udp_length_offset, udp_bytes);
      return;
    }
    case Version::v2_ipv6:
      store_u16(network, ipv6_payload_offset, udp_bytes);
      store_u16(frame, udp_length_offset, udp_bytes);
      return;
  }
}

std::size_t Encapsulation::finish(MutableBytes frame, std::size_t transport_bytes) const {
  const std::size_t icrc_offset = prefix_bytes_ + transport_bytes;
  const std::size_t end = icrc_offset + icrc_bytes;
  const std::size_t frame_end = frame_bytes(transport_bytes);
  VERBENA_CHECK(frame.size() >= frame_end);
  const ByteView packet = frame.first(icrc_offset).subspan(network_offset_);
  store_icrc(frame.subspan(icrc_offset), icrc(path_.version, packet));
  std::ranges::fill(frame.first(frame_end).subspan(end), std::byte{0});
  return frame_end;
}

}  // namespace verbena::roce
