// TCP segments in Ethernet frames over IPv4 and IPv6: finding them, and what stands around them.
// IPv4 addresses are mapped ones (::ffff:10.0.0.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "proto/inet/headers.h"
#include "proto/inet/link_address.h"
#include "proto/inet/tcp_header.h"

namespace verbena::inet {

struct TcpFrame {
  Ipv6Address source;
  Ipv6Address destination;
  /// IPv4 type of service, or IPv6 traffic class.
  std::uint8_t traffic_class = 0;
  /// Where the segment begins in the frame, and its bytes with the header.
  std::size_t segment_offset = 0;
  ByteView segment_bytes;
  TcpSegment segment;

  [[nodiscard]] bool checksum_is_good() const;
};

/// The segment of a frame without FCS; nothing if it holds no TCP, or a broken header.
[[nodiscard]] std::optional<TcpFrame> parse_tcp_frame(ByteView frame);

/// Who talks to whom, both by the same version of IP.
struct TcpFramePath {
  MacAddress source_mac;
  MacAddress destination_mac;
  Ipv6Address source;
  Ipv6Address destination;
};

/// What stands in front of a segment over IPv4.
inline constexpr std::size_t tcp_frame_prefix_bytes = ethernet_header_bytes + ipv4_header_bytes;
/// The same over whatever version of IP the address is of.
[[nodiscard]] constexpr std::size_t tcp_frame_prefix_bytes_of(const Ipv6Address& address) {
  return ethernet_header_bytes + (ipv4_of(address) ? ipv4_header_bytes : ipv6_header_bytes);
}

/// Completes a frame whose segment, with a checksum of 0, lies behind its first
/// tcp_frame_prefix_bytes_of() bytes: the headers in front, and the checksum. It isn't padded.
void finish_tcp_frame(MutableBytes frame, const TcpFramePath& path);

}  // namespace verbena::inet
