// Dissection of what lies around the transport packet: Ethernet, IP, UDP, GRH, ICRC.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cli/dissect_transport.h"
#include "cli/dissection.h"
#include "cli/layer_builder.h"
#include "proto/ib_bth/headers.h"
#include "proto/inet/parse.h"
#include "proto/inet/tcp_header.h"
#include "proto/roce/decap.h"
#include "proto/roce/gid.h"

namespace verbena::cli {
namespace {

struct Name {
  std::uint32_t number;
  std::string_view name;
};

/// Protocols that turn up beside RoCE (IANA's registries).
constexpr Name ethertype_names[] = {
    {inet::ethertype_ipv4, "IPv4"}, {inet::ethertype_arp, "ARP"},
    {inet::ethertype_ipv6, "IPv6"}, {inet::ethertype_roce_v1, "RoCE v1"},
    {0x8808, "flow control"},       {0x88CC, "LLDP"}};
constexpr Name ip_protocol_names[] = {{1, "ICMP"},
                                      {2, "IGMP"},
                                      {inet::ip_protocol_tcp, "TCP"},
                                      {inet::ip_protocol_udp, "UDP"},
                                      {58, "ICMPv6"}};
/// RFC 3168, 5.
constexpr std::array<std::string_view, 4> ecn_names{"not ECN-capable", "ECT(1)", "ECT(0)",
                                                    "congestion experienced"};
constexpr unsigned ecn_mask = 3;

std::string_view name_of(std::span<const Name> names, std::uint32_t number) {
  const auto found = std::ranges::find(names, number, &Name::number);
  return found == names.end() ? std::string_view() : found->name;
}

std::size_t offset_in(ByteView frame, ByteView part) {
  return static_cast<std::size_t>(part.data() - frame.data());
}

void add_traffic_class(LayerBuilder& layer, std::string_view name, std::size_t at,
                       std::size_t size_bytes, std::uint8_t value) {
  layer.hex(name, at, size_bytes, value,
            fmt::format("DSCP {}, {}", value >> 2, ecn_names.at(value & ecn_mask)));
}

void dissect_udp(ByteView frame, ByteView bytes, Dissection& out) {
  const auto udp = inet::parse_udp(bytes);
  if (!udp) {
    out.error = describe(udp.error());
    return;
  }
  LayerBuilder layer(out, "udp", "UDP", offset_in(frame, bytes), inet::udp_header_bytes);
  layer.number("source_port", 0, 2, udp->header.source_port.value());
  layer.number("destination_port", 2, 2, udp->header.destination_port.value());
  layer.number("length", 4, 2, udp->header.length_bytes.value());
  layer.hex("checksum", 6, 2, udp->header.checksum.value(),
            udp->header.checksum.value() == 0 ? "none" : "not checked");
}

std::string flag_words(const inet::TcpHeader& header) {
  using Tcp = inet::TcpHeader;
  constexpr std::pair<std::uint8_t, std::string_view> names[] = {{Tcp::flag_syn, "SYN"},
                                                                 {Tcp::flag_fin, "FIN"},
                                                                 {Tcp::flag_rst, "RST"},
                                                                 {Tcp::flag_psh, "PSH"},
                                                                 {Tcp::flag_ack, "ACK"}};
  std::string words;
  for (const auto& [flag, name] : names) {
    if (header.has(flag)) {
      words += words.empty() ? "" : " ";
      words += name;
    }
  }
  return words;
}

void dissect_tcp(ByteView frame, ByteView bytes, Dissection& out) {
  out.title = "TCP";
  const auto tcp = inet::parse_tcp(bytes);
  if (!tcp) {
    out.error = describe(tcp.error());
    return;
  }
  const inet::TcpHeader& header = tcp->header;
  const std::string flags = flag_words(header);
  LayerBuilder layer(out, "tcp", "TCP", offset_in(frame, bytes), header.header_bytes());
  layer.number("source_port", 0, 2, header.source_port.value());
  layer.number("destination_port", 2, 2, header.destination_port.value());
  layer.number("sequence", 4, 4, header.sequence.value());
  layer.number("acknowledgement", 8, 4, header.acknowledgement.value());
  layer.number("header_length", 12, 1, header.header_bytes());
  layer.hex("flags", 13, 1, header.flags, flags);
  layer.number("window", 14, 2, header.window.value());
  layer.hex("checksum", 16, 2, header.checksum.value(), "not checked");
  layer.number("payload_length", 0, header.header_bytes(), tcp->payload.size());
  out.summary = fmt::format("port {} > {}, {}, seq {}, {} bytes", header.source_port.value(),
                            header.destination_port.value(), flags.empty() ? "no flags" : flags,
                            header.sequence.value(), tcp->payload.size());
}

void dissect_ipv4(ByteView frame, ByteView bytes, Dissection& out) {
  const auto ip = inet::parse_ipv4(bytes);
  if (!ip) {
    out.error = describe(ip.error());
    return;
  }
  const inet::Ipv4Header& header = ip->header;
  const std::string_view protocol = name_of(ip_protocol_names, header.protocol);
  {
    LayerBuilder layer(out, "ipv4", "IPv4", offset_in(frame, bytes), inet::ipv4_header_bytes);
    layer.number("version", 0, 1, header.version());
    layer.number("header_length", 0, 1, header.header_bytes());
    add_traffic_class(layer, "type_of_service", 1, 1, header.type_of_service);
    layer.number("total_length", 2, 2, header.total_bytes.value());
    layer.hex("identification", 4, 2, header.identification.value());
    const std::uint16_t flags = header.flags_and_offset.value();
    layer.flag("dont_fragment", 6, (flags & inet::Ipv4Header::flag_dont_fragment) != 0);
    layer.number("time_to_live", 8, 1, header.time_to_live);
    layer.number("protocol", 9, 1, header.protocol, protocol);
    layer.hex("checksum", 10, 2, header.checksum.value(), "good");
    layer.text("source", 12, 4, header.source.to_text());
    layer.text("destination", 16, 4, header.destination.to_text());
  }
  out.source = header.source.to_text();
  out.destination = header.destination.to_text();
  out.title = "IPv4 " + (protocol.empty() ? "protocol " + std::to_string(header.protocol)
                                          : std::string(protocol));
  if (header.protocol == inet::ip_protocol_udp) {
    dissect_udp(frame, ip->payload, out);
  } else if (header.protocol == inet::ip_protocol_tcp) {
    dissect_tcp(frame, ip->payload, out);
  }
}

void dissect_ipv6(ByteView frame, ByteView bytes, Dissection& out) {
  const auto ip = inet::parse_ipv6(bytes);
  if (!ip) {
    out.error = describe(ip.error());
    return;
  }
  const inet::Ipv6Header& header = ip->header;
  const std::string_view protocol = name_of(ip_protocol_names, header.next_header);
  {
    LayerBuilder layer(out, "ipv6", "IPv6", offset_in(frame, bytes), inet::ipv6_header_bytes);
    layer.number("version", 0, 1, header.version());
    add_traffic_class(layer, "traffic_class", 0, 2, header.traffic_class());
    layer.number("flow_label", 1, 3, header.flow_label());
    layer.number("payload_length", 4, 2, header.payload_bytes.value());
    layer.number("next_header", 6, 1, header.next_header, protocol);
    layer.number("hop_limit", 7, 1, header.hop_limit);
    layer.text("source", 8, 16, header.source.to_text());
    layer.text("destination", 24, 16, header.destination.to_text());
  }
  out.source = header.source.to_text();
  out.destination = header.destination.to_text();
  out.title = "IPv6 " + (protocol.empty() ? "next header " + std::to_string(header.next_header)
                                          : std::string(protocol));
  if (header.next_header == inet::ip_protocol_udp) {
    dissect_udp(frame, ip->payload, out);
  } else if (header.next_header == inet::ip_protocol_tcp) {
    dissect_tcp(frame, ip->payload, out);
  }
}

void dissect_grh(ByteView frame, ByteView bytes, Dissection& out) {
  out.title = "RoCE v1";
  if (bytes.size() < ib::grh_bytes) {
    return;  // parse_frame() tells.
  }
  const auto grh = read_struct<ib::Grh>(bytes);
  LayerBuilder layer(out, "grh", "GRH", offset_in(frame, bytes), ib::grh_bytes);
  layer.number("ip_version", 0, 1, grh.ip_version());
  add_traffic_class(layer, "traffic_class", 0, 2, grh.traffic_class());
  layer.number("flow_label", 1, 3, grh.flow_label());
  layer.number("payload_length", 4, 2, grh.payload_bytes());
  layer.hex("next_header", 6, 1, grh.next_header());
  layer.number("hop_limit", 7, 1, grh.hop_limit());
  out.source = roce::to_text(grh.source());
  out.destination = roce::to_text(grh.destination());
  layer.text("source", 8, 16, out.source);
  layer.text("destination", 24, 16, out.destination);
}

/// Everything below the BTH, RoCE or not.
void dissect_network(ByteView frame, Dissection& out) {
  const auto ethernet = inet::parse_ethernet(frame);
  if (!ethernet) {
    out.title = "Ethernet";
    out.error = describe(ethernet.error());
    return;
  }
  const std::string_view protocol = name_of(ethertype_names, ethernet->ethertype);
  out.source = ethernet->header.source.to_text();
  out.destination = ethernet->header.destination.to_text();
  out.title = protocol.empty() ? fmt::format("EtherType {:#06x}", ethernet->ethertype) : protocol;
  {
    const std::size_t header_bytes = offset_in(frame, ethernet->payload);
    LayerBuilder layer(out, "ethernet", "Ethernet", 0, header_bytes);
    layer.text("destination", 0, 6, out.destination);
    layer.text("source", 6, 6, out.source);
    if (ethernet->vlan_control) {
      constexpr unsigned vlan_id_mask = 0xFFF;
      layer.number("vlan", 14, 2, *ethernet->vlan_control & vlan_id_mask);
      layer.number("vlan_priority", 14, 1, *ethernet->vlan_control >> 13U);
    }
    layer.hex("ethertype", header_bytes - 2, 2, ethernet->ethertype, protocol);
  }
  switch (ethernet->ethertype) {
    case inet::ethertype_ipv4:
      return dissect_ipv4(frame, ethernet->payload, out);
    case inet::ethertype_ipv6:
      return dissect_ipv6(frame, ethernet->payload, out);
    case inet::ethertype_roce_v1:
      return dissect_grh(frame, ethernet->payload, out);
    default:
      return;
  }
}

void dissect_icrc(ByteView frame, const roce::RoceFrame& roce, Dissection& out) {
  const bool is_good = roce.icrc_is_good();
  out.icrc_is_good = is_good;
  const std::size_t offset = offset_in(frame, roce.packet) + roce.packet.size() - roce::icrc_bytes;
  LayerBuilder layer(out, "icrc", "ICRC", offset, roce::icrc_bytes);
  // Stored least significant byte first; Wireshark shows the bytes as they come.
  layer.hex("value", 0, roce::icrc_bytes, roce.wire_icrc());
  layer.hex("computed", 0, roce::icrc_bytes, roce.computed_icrc());
  layer.text("status", 0, roce::icrc_bytes, is_good ? "good" : "bad");
}

}  // namespace

Dissection dissect(ByteView frame) {
  Dissection out;
  dissect_network(frame, out);
  const auto roce = roce::parse_frame(frame);
  if (!roce) {
    if (roce.error().kind != roce::FrameError::Kind::not_roce) {
      out.error = describe(roce.error());
    }
    return out;
  }
  dissect_transport(roce->transport, offset_in(frame, roce->transport), out);
  if (roce->ecn() == ecn_mask) {
    out.summary += ", congestion experienced";
  }
  dissect_icrc(frame, *roce, out);
  return out;
}

}  // namespace verbena::cli
