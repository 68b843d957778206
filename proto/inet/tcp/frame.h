// TCP segments in Ethernet frames over IPv4: finding them, and what stands around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "proto/inet/headers.h"
#include "proto/inet/tcp_header.h"

namespace verbena::inet {

struct TcpFrame {
  Ipv4Address source;
  Ipv4Address destination;
  std::uint8_t type_of_service = 0;
  /// Where the segment begins in the frame, and its bytes with the header.
  std::size_t segment_offset = 0;
  ByteView segment_bytes;
  TcpSegment segment;

  [[nodiscard]] bool checksum_is_good() const;
};

/// The segment of a frame without FCS; nothing if it holds no TCP over IPv4, or a broken header.
[[nodiscard]] std::optional<TcpFrame> parse_tcp_frame(ByteView frame);

/// Who talks to whom.
struct TcpFramePath {
  MacAddress source_mac;
  MacAddress destination_mac;
  Ipv4Address source;
  Ipv4Address destination;
};

inline constexpr std::size_t tcp_frame_prefix_bytes = ethernet_header_bytes + ipv4_header_bytes;

/// Completes a frame whose segment, with a checksum of 0, lies behind its first
/// tcp_frame_prefix_bytes: the headers in front, and the checksum. It isn't padded.
void finish_tcp_frame(MutableBytes frame, const TcpFramePath& path);

}  // namespace verbena::inet
