#include "proto/inet/tcp/frame.h"

#include <cstddef>

#include "proto/inet/parse.h"
#include "proto/inet/tcp/checksum.h"

namespace verbena::inet {

namespace {

constexpr std::uint8_t time_to_live_default = 64;

struct IpPayload {
  Ipv6Address source;
  Ipv6Address destination;
  std::uint8_t traffic_class = 0;
  std::uint8_t protocol = 0;
  ByteView bytes;
};

std::optional<IpPayload> parse_ip(const EthernetFrame& ethernet) {
  if (ethernet.ethertype == ethertype_ipv4) {
    const auto packet = parse_ipv4(ethernet.payload);
    if (!packet) {
      return std::nullopt;
    }
    const Ipv4Header& header = packet->header;
    return IpPayload{.source = mapped(header.source),
                     .destination = mapped(header.destination),
                     .traffic_class = header.type_of_service,
                     .protocol = header.protocol,
                     .bytes = packet->payload};
  }
  const auto packet = ethernet.ethertype == ethertype_ipv6
                          ? parse_ipv6(ethernet.payload)
                          : Result<Ipv6Packet, ParseError>(std::unexpected(ParseError{}));
  if (!packet) {
    return std::nullopt;
  }
  const Ipv6Header& header = packet->header;
  // Mapped addresses are not for the wire: such a packet would pass for one of IPv4.
  if (ipv4_of(header.source) || ipv4_of(header.destination)) {
    return std::nullopt;
  }
  return IpPayload{.source = header.source,
                   .destination = header.destination,
                   .traffic_class = header.traffic_class(),
                   .protocol = header.next_header,
                   .bytes = packet->payload};
}

std::uint16_t checksum_of(const Ipv6Address& source, const Ipv6Address& destination,
                          ByteView segment) {
  const auto from = ipv4_of(source);
  const auto to = ipv4_of(destination);
  return from && to ? tcp_checksum(*from, *to, segment)
                    : tcp_checksum(source, destination, segment);
}

void write_ipv4(MutableBytes packet, Ipv4Address source, Ipv4Address destination) {
  Ipv4Header ip;
  ip.version_and_length = Ipv4Header::version_and_length_plain;
  ip.total_bytes = static_cast<std::uint16_t>(packet.size());
  // With "don't fragment" the identification means nothing (RFC 6864, 4.1).
  ip.flags_and_offset = Ipv4Header::flag_dont_fragment;
  ip.time_to_live = time_to_live_default;
  ip.protocol = ip_protocol_tcp;
  ip.source = source;
  ip.destination = destination;
  ip.checksum = ipv4_checksum(ip);
  write_struct(packet, ip);
}

void write_ipv6(MutableBytes packet, const Ipv6Address& source, const Ipv6Address& destination) {
  Ipv6Header ip;
  ip.set_class_and_flow(0, 0);
  ip.payload_bytes = static_cast<std::uint16_t>(packet.size() - ipv6_header_bytes);
  ip.next_header = ip_protocol_tcp;
  ip.hop_limit = time_to_live_default;
  ip.source = source;
  ip.destination = destination;
  write_struct(packet, ip);
}

}  // namespace

bool TcpFrame::checksum_is_good() const {
  return checksum_of(source, destination, segment_bytes) == 0;
}

std::optional<TcpFrame> parse_tcp_frame(ByteView frame) {
  const auto ethernet = parse_ethernet(frame);
  if (!ethernet) {
    return std::nullopt;
  }
  const auto ip = parse_ip(*ethernet);
  if (!ip || ip->protocol != ip_protocol_tcp) {
    return std::nullopt;
  }
  const auto segment = parse_tcp(ip->bytes);
  if (!segment) {
    return std::nullopt;
  }
  return TcpFrame{.source = ip->source,
                  .destination = ip->destination,
                  .traffic_class = ip->traffic_class,
                  .segment_offset = static_cast<std::size_t>(ip->bytes.data() - frame.data()),
                  .segment_bytes = ip->bytes,
                  .segment = *segment};
}

void finish_tcp_frame(MutableBytes frame, const TcpFramePath& path) {
  const auto source = ipv4_of(path.source);
  const auto destination = ipv4_of(path.destination);
  const bool is_ipv4 = source && destination;
  EthernetHeader ethernet;
  ethernet.source = path.source_mac;
  ethernet.destination = path.destination_mac;
  ethernet.ethertype = is_ipv4 ? ethertype_ipv4 : ethertype_ipv6;
  write_struct(frame, ethernet);
  const MutableBytes packet = frame.subspan(ethernet_header_bytes);
  if (is_ipv4) {
    write_ipv4(packet, *source, *destination);
  } else {
    write_ipv6(packet, path.source, path.destination);
  }
  const MutableBytes segment = packet.subspan(is_ipv4 ? ipv4_header_bytes : ipv6_header_bytes);
  auto header = read_struct<TcpHeader>(segment);
  header.checksum = checksum_of(path.source, path.destination, segment);
  write_struct(segment, header);
}

}  // namespace verbena::inet
