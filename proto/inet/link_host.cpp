#include "proto/inet/link_host.h"

#include <algorithm>

#include "proto/inet/pseudo_header.h"

namespace verbena::inet {

namespace {

constexpr std::uint8_t hop_limit_default = 64;
/// fe80::/64, on every link (RFC 4291, 2.5.6).
constexpr unsigned link_local_prefix_bits = 64;
/// VLAN identifier 0 is a priority only (IEEE 802.1Q, table 9-2).
constexpr std::uint16_t vlan_identifier_mask = 0x0FFF;

/// Writes `message` behind an IPv6 header and completes its checksum.
void write_icmpv6(MutableBytes packet, const Ipv6Address& source, const Ipv6Address& destination,
                  std::uint8_t hop_limit) {
  const MutableBytes message = packet.subspan(ipv6_header_bytes);
  Ipv6Header header;
  header.set_class_and_flow(0, 0);
  header.payload_bytes = static_cast<std::uint16_t>(message.size());
  header.next_header = ip_protocol_icmpv6;
  header.hop_limit = hop_limit;
  header.source = source;
  header.destination = destination;
  write_struct(packet, header);
  auto icmp = read_struct<IcmpHeader>(message);
  icmp.checksum = 0;
  write_struct(message, icmp);
  icmp.checksum = checksum_with_pseudo_header(source, destination, ip_protocol_icmpv6, message);
  write_struct(message, icmp);
}

}  // namespace

LinkHost::LinkHost(const MacAddress& mac, std::vector<LinkAddress> addresses)
    : mac_(mac), addresses_(std::move(addresses)) {
  const LinkAddress link_local{link_local_of(mac), link_local_prefix_bits};
  if (!is_own(link_local.address)) {
    addresses_.push_back(link_local);
  }
}

bool LinkHost::is_own(const Ipv6Address& address) const {
  return std::ranges::find(addresses_, address, &LinkAddress::address) != addresses_.end();
}

std::optional<Ipv6Address> LinkHost::source_toward(const Ipv6Address& address) const {
  const auto covering =
      std::ranges::find_if(addresses_, [&](const LinkAddress& own) { return own.covers(address); });
  return covering != addresses_.end() ? std::optional(covering->address) : std::nullopt;
}

NeighbourAnswer LinkHost::resolve(const Ipv6Address& address, Time now) {
  return source_toward(address) ? neighbours_.find(address, now) : NeighbourAnswer{};
}

MutableBytes LinkHost::begin_frame(const MacAddress& to, std::uint16_t ethertype,
                                   std::size_t payload_bytes, EthernetSink& sink) {
  const MutableBytes frame = sink.reserve(ethernet_header_bytes + payload_bytes);
  if (frame.empty()) {
    ++counters_.unsent;
    return {};
  }
  EthernetHeader header{.destination = to, .source = mac_};
  header.ethertype = ethertype;
  write_struct(frame, header);
  return frame;
}

LinkHost::Verdict LinkHost::on_frame(ByteView frame, Time now, EthernetSink& sink) {
  const auto ethernet = parse_ethernet(frame);
  if (!ethernet) {
    return Verdict::refused;
  }
  const EthernetHeader& header = ethernet->header;
  const bool is_tagged = (ethernet->vlan_control.value_or(0) & vlan_identifier_mask) != 0;
  if (is_tagged || (header.destination != mac_ && !header.destination.is_group())) {
    return Verdict::ignored;
  }
  const ByteView payload = ethernet->payload;
  if (ethernet->ethertype == ethertype_arp) {
    return on_arp(payload, now, sink);
  }
  // Only what names ICMP in its IP header is looked at closely.
  const bool is_icmp = ethernet->ethertype == ethertype_ipv4 &&
                       payload.size() >= ipv4_header_bytes &&
                       read_struct<Ipv4Header>(payload).protocol == ip_protocol_icmp;
  const bool is_icmpv6 = ethernet->ethertype == ethertype_ipv6 &&
                         payload.size() >= ipv6_header_bytes &&
                         read_struct<Ipv6Header>(payload).next_header == ip_protocol_icmpv6;
  if (is_icmp) {
    const auto packet = parse_ipv4(payload);
    return packet ? on_icmp(header, *packet, sink) : Verdict::refused;
  }
  if (is_icmpv6) {
    const auto packet = parse_ipv6(payload);
    return packet ? on_icmpv6(header, *packet, now, sink) : Verdict::refused;
  }
  return Verdict::not_mine;
}

LinkHost::Verdict LinkHost::on_arp(ByteView bytes, Time now, EthernetSink& sink) {
  const auto packet = parse_arp(bytes);
  if (!packet) {
    return Verdict::refused;
  }
  if (is_own(mapped(packet->sender))) {
    counters_.conflicts += packet->sender_mac != mac_ ? 1 : 0;
    return Verdict::ignored;
  }
  const bool is_for_us = is_own(mapped(packet->target));
  // A probe (RFC 5227, 2.1.1) has no sender yet.
  if (packet->sender != Ipv4Address{} && source_toward(mapped(packet->sender))) {
    neighbours_.learn(mapped(packet->sender), packet->sender_mac, is_for_us, now);
  }
  if (!is_for_us) {
    return Verdict::ignored;
  }
  if (packet->operation.value() != ArpPacket::operation_request) {
    return Verdict::noted;
  }
  const MutableBytes frame = begin_frame(packet->sender_mac, ethertype_arp, arp_packet_bytes, sink);
  if (frame.empty()) {
    return Verdict::noted;
  }
  ArpPacket reply{.sender_mac = mac_,
                  .sender = packet->target,
                  .target_mac = packet->sender_mac,
                  .target = packet->sender};
  reply.operation = ArpPacket::operation_reply;
  write_struct(frame.subspan(ethernet_header_bytes), reply);
  sink.commit();
  ++counters_.answered;
  return Verdict::answered;
}

LinkHost::Verdict LinkHost::on_icmp(const EthernetHeader& ethernet, const Ipv4Packet& packet,
                                    EthernetSink& sink) {
  if (packet.payload.size() < icmp_echo_bytes_min || internet_checksum(packet.payload) != 0) {
    return Verdict::refused;
  }
  auto icmp = read_struct<IcmpHeader>(packet.payload);
  const bool is_echo = icmp.type == icmp_type::echo_request && icmp.code == 0;
  // A group is not answered (RFC 1122, 3.2.2.6): its members would all speak at once.
  const bool from_one = !packet.header.source.is_multicast() && !ethernet.source.is_group();
  if (!is_echo || !from_one || !is_own(mapped(packet.header.destination))) {
    return Verdict::ignored;
  }
  const MutableBytes frame =
      begin_frame(ethernet.source, ethertype_ipv4, packet.datagram.size(), sink);
  if (frame.empty()) {
    return Verdict::noted;
  }
  const MutableBytes reply = frame.subspan(ethernet_header_bytes);
  copy_bytes(reply, packet.datagram);
  Ipv4Header header = packet.header;
  std::swap(header.source, header.destination);
  header.time_to_live = hop_limit_default;
  header.checksum = ipv4_checksum(header);
  write_struct(reply, header);
  const MutableBytes message = reply.subspan(ipv4_header_bytes);
  icmp.type = icmp_type::echo_reply;
  icmp.checksum = 0;
  write_struct(message, icmp);
  icmp.checksum = internet_checksum(message);
  write_struct(message, icmp);
  sink.commit();
  ++counters_.answered;
  return Verdict::answered;
}

LinkHost::Verdict LinkHost::on_icmpv6(const EthernetHeader& ethernet, const Ipv6Packet& packet,
                                      Time now, EthernetSink& sink) {
  const Ipv6Header& header = packet.header;
  if (packet.payload.size() < icmp_header_bytes ||
      checksum_with_pseudo_header(header.source, header.destination, ip_protocol_icmpv6,
                                  packet.payload) != 0) {
    return Verdict::refused;
  }
  switch (read_struct<IcmpHeader>(packet.payload).type) {
    case icmpv6_type::neighbour_solicitation:
    case icmpv6_type::neighbour_advertisement:
      return on_neighbour_message(ethernet, packet, now, sink);
    case icmpv6_type::echo_request:
      return echo(ethernet, packet, sink);
    default:
      return Verdict::ignored;
  }
}

LinkHost::Verdict LinkHost::on_neighbour_message(const EthernetHeader& ethernet,
                                                 const Ipv6Packet& packet, Time now,
                                                 EthernetSink& sink) {
  const auto notice = parse_neighbour_message(packet.header, packet.payload);
  if (!notice) {
    return Verdict::refused;
  }
  if (ethernet.source.is_group()) {
    return Verdict::ignored;  // Nobody has such an address.
  }
  const bool is_for_us = is_own(notice->target);
  if (!notice->is_solicitation) {
    if (is_for_us) {
      counters_.conflicts += ethernet.source != mac_ ? 1 : 0;
      return Verdict::ignored;
    }
    // An answer to a question to one may leave its address out (RFC 4861, 4.4).
    neighbours_.learn(notice->target, notice->mac.value_or(ethernet.source), false, now);
    return Verdict::noted;
  }
  if (!is_for_us) {
    return Verdict::ignored;
  }
  if (notice->mac && !is_own(packet.header.source) && source_toward(packet.header.source)) {
    neighbours_.learn(packet.header.source, *notice->mac, true, now);
  }
  return advertise(ethernet, packet, *notice, sink);
}

LinkHost::Verdict LinkHost::advertise(const EthernetHeader& ethernet, const Ipv6Packet& packet,
                                      const NeighbourNotice& notice, EthernetSink& sink) {
  // Who has no address yet hears it with everybody (RFC 4861, 7.2.4).
  const Ipv6Address to = notice.is_probe ? all_nodes_group() : packet.header.source;
  const MacAddress mac = notice.is_probe ? mac_of_group(to) : notice.mac.value_or(ethernet.source);
  const MutableBytes frame =
      begin_frame(mac, ethertype_ipv6,
                  ipv6_header_bytes + neighbour_message_bytes + link_layer_option_bytes, sink);
  if (frame.empty()) {
    return Verdict::noted;
  }
  const MutableBytes reply = frame.subspan(ethernet_header_bytes);
  NeighbourMessage message{.header = {.type = icmpv6_type::neighbour_advertisement},
                           .target = notice.target};
  message.flags =
      NeighbourMessage::flag_override | (notice.is_probe ? 0U : NeighbourMessage::flag_solicited);
  write_struct(reply.subspan(ipv6_header_bytes), message);
  write_struct(reply.subspan(ipv6_header_bytes + neighbour_message_bytes),
               LinkLayerOption{.type = LinkLayerOption::target, .mac = mac_});
  write_icmpv6(reply, notice.target, to, neighbour_hop_limit);
  sink.commit();
  ++counters_.answered;
  return Verdict::answered;
}

LinkHost::Verdict LinkHost::echo(const EthernetHeader& ethernet, const Ipv6Packet& packet,
                                 EthernetSink& sink) {
  if (packet.payload.size() < icmp_echo_bytes_min) {
    return Verdict::refused;
  }
  const Ipv6Header& header = packet.header;
  const bool from_one = !header.source.is_multicast() && header.source != Ipv6Address{} &&
                        !ethernet.source.is_group();
  if (!from_one || !is_own(header.destination)) {
    return Verdict::ignored;
  }
  const MutableBytes frame =
      begin_frame(ethernet.source, ethertype_ipv6, packet.datagram.size(), sink);
  if (frame.empty()) {
    return Verdict::noted;
  }
  const MutableBytes reply = frame.subspan(ethernet_header_bytes);
  copy_bytes(reply, packet.datagram);
  auto icmp = read_struct<IcmpHeader>(packet.payload);
  icmp.type = icmpv6_type::echo_reply;
  write_struct(reply.subspan(ipv6_header_bytes), icmp);
  write_icmpv6(reply, header.destination, header.source, hop_limit_default);
  sink.commit();
  ++counters_.answered;
  return Verdict::answered;
}

void LinkHost::transmit(Time now, EthernetSink& sink) {
  while (const auto question = neighbours_.next_question(now)) {
    ask(*question, sink);
  }
}

void LinkHost::ask(const NeighbourTable::Question& question, EthernetSink& sink) {
  const auto own = source_toward(question.address);
  const auto ipv4 = ipv4_of(question.address);
  if (!own) {
    return;
  }
  ++counters_.questions;
  if (ipv4) {
    ask_by_arp(ipv4_of(*own).value_or(Ipv4Address{}), *ipv4, question.mac, sink);
  } else {
    solicit(*own, question.address, question.mac, sink);
  }
}

void LinkHost::ask_by_arp(Ipv4Address own, Ipv4Address target, const std::optional<MacAddress>& mac,
                          EthernetSink& sink) {
  const MutableBytes frame =
      begin_frame(mac.value_or(mac_broadcast), ethertype_arp, arp_packet_bytes, sink);
  if (frame.empty()) {
    return;
  }
  ArpPacket packet{.sender_mac = mac_, .sender = own, .target = target};
  packet.operation = ArpPacket::operation_request;
  write_struct(frame.subspan(ethernet_header_bytes), packet);
  sink.commit();
}

void LinkHost::solicit(const Ipv6Address& own, const Ipv6Address& target,
                       const std::optional<MacAddress>& mac, EthernetSink& sink) {
  const Ipv6Address to = mac ? target : solicited_node_group(target);
  const MutableBytes frame =
      begin_frame(mac.value_or(mac_of_group(to)), ethertype_ipv6,
                  ipv6_header_bytes + neighbour_message_bytes + link_layer_option_bytes, sink);
  if (frame.empty()) {
    return;
  }
  const MutableBytes packet = frame.subspan(ethernet_header_bytes);
  write_struct(
      packet.subspan(ipv6_header_bytes),
      NeighbourMessage{.header = {.type = icmpv6_type::neighbour_solicitation}, .target = target});
  write_struct(packet.subspan(ipv6_header_bytes + neighbour_message_bytes),
               LinkLayerOption{.type = LinkLayerOption::source, .mac = mac_});
  write_icmpv6(packet, own, to, neighbour_hop_limit);
  sink.commit();
}

}  // namespace verbena::inet
