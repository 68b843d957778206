#include "proto/inet/tcp/frame.h"

#include <cstddef>

#include "proto/inet/parse.h"
#include "proto/inet/tcp/checksum.h"

namespace verbena::inet {

namespace {

constexpr std::uint8_t time_to_live_default = 64;

}  // namespace

bool TcpFrame::checksum_is_good() const {
  return tcp_checksum(source, destination, segment_bytes) == 0;
}

std::optional<TcpFrame> parse_tcp_frame(ByteView frame) {
  const auto ethernet = parse_ethernet(frame);
  if (!ethernet || ethernet->ethertype != ethertype_ipv4) {
    return std::nullopt;
  }
  const auto ip = parse_ipv4(ethernet->payload);
  if (!ip || ip->header.protocol != ip_protocol_tcp) {
    return std::nullopt;
  }
  const auto segment = parse_tcp(ip->payload);
  if (!segment) {
    return std::nullopt;
  }
  return TcpFrame{.source = ip->header.source,
                  .destination = ip->header.destination,
                  .type_of_service = ip->header.type_of_service,
                  .segment_offset = static_cast<std::size_t>(ip->payload.data() - frame.data()),
                  .segment_bytes = ip->payload,
                  .segment = *segment};
}

void finish_tcp_frame(MutableBytes frame, const TcpFramePath& path) {
  EthernetHeader ethernet;
  ethernet.source = path.source_mac;
  ethernet.destination = path.destination_mac;
  ethernet.ethertype = ethertype_ipv4;
  write_struct(frame, ethernet);
  Ipv4Header ip;
  ip.version_and_length = Ipv4Header::version_and_length_plain;
  ip.total_bytes = static_cast<std::uint16_t>(frame.size() - ethernet_header_bytes);
  // With "don't fragment" the identification means nothing (RFC 6864, 4.1).
  ip.flags_and_offset = Ipv4Header::flag_dont_fragment;
  ip.time_to_live = time_to_live_default;
  ip.protocol = ip_protocol_tcp;
  ip.source = path.source;
  ip.destination = path.destination;
  ip.checksum = ipv4_checksum(ip);
  write_struct(frame.subspan(ethernet_header_bytes), ip);
  const MutableBytes segment = frame.subspan(tcp_frame_prefix_bytes);
  const std::uint16_t checksum = tcp_checksum(path.source, path.destination, segment);
  auto header = read_struct<TcpHeader>(segment);
  header.checksum = checksum;
  write_struct(segment, header);
}

}  // namespace verbena::inet
