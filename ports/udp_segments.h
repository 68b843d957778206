// What a UDP socket received, as the frames that came over the wire. The socket gives payloads,
// many of them in one piece; the headers in front are written anew, so that the NIC, a capture and
// other processes see whole frames. In place: the headers of a segment overwrite the end of the one
// before, which has been dealt with by then.
//
//     buffer   | 42 bytes | segment 0 | segment 1 | segment 2 .. |
//     frame 0  |◀── headers + segment 0 ──▶|
//     frame 1            |◀── headers + segment 1 ──▶|
//
// What the socket doesn't tell: the identification is solved for (proto/roce/icrc_solve.h), DF is
// taken for granted, the UDP checksum (which the kernel has checked) is given as 0, Ethernet
// addresses follow from IPv4 addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "ports/udp_socket.h"
#include "proto/inet/headers.h"
#include "proto/inet/ip_address.h"
#include "proto/roce/icrc_solve.h"

namespace verbena::ports {

class UdpSegments {
 public:
  struct Frame {
    MutableBytes bytes;
    /// With the identification that is in the frame now.
    bool icrc_is_good = false;
  };

  UdpSegments();

  /// Where the socket receives to.
  [[nodiscard]] MutableBytes room() {
    return MutableBytes(buffer_).subspan(udp_frame_prefix_bytes);
  }
  /// What has been received to room(), by the socket of that address. Nothing may be pending.
  void begin(const UdpArrival& arrival, inet::Ipv4Address address);

  [[nodiscard]] bool pending() const { return pending_; }
  /// The next frame; valid until the next call. There must be one.
  [[nodiscard]] Frame next();

 private:
  std::vector<std::byte> buffer_;
  UdpArrival arrival_;
  std::size_t next_byte_ = 0;
  /// An empty datagram is a frame as well.
  bool pending_ = false;
  inet::EthernetHeader ethernet_{};
  /// Without length, identification and checksum.
  inet::Ipv4Header ip_{};
  /// Segments of one batch are numbered one by one.
  std::uint16_t likely_identification_ = 0;
  roce::IdentificationSolver solver_;
};

}  // namespace verbena::ports
