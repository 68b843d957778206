// What a UDP socket received, as the frames that came over the wire. The socket gives payloads,
// many of them in one piece; the headers in front are written anew, so that the NIC, a capture and
// other processes see whole frames. In place: the headers of a segment overwrite the end of the one
// before, which has been dealt with by then.
//
//     buffer   | headers  | segment 0 | segment 1 | segment 2 .. |
//     frame 0  |◀── headers + segment 0 ──▶|
//     frame 1            |◀── headers + segment 1 ──▶|
//
// What the socket doesn't tell: the IPv4 identification is solved for (proto/roce/icrc_solve.h), DF
// is taken for granted, the UDP checksum (which the kernel has checked) is given as 0, Ethernet
// addresses follow from IP addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "ports/network_port.h"
#include "ports/udp_socket.h"
#include "proto/gid.h"
#include "proto/inet/headers.h"
#include "proto/roce/icrc_solve.h"

namespace verbena::ports {

class UdpSegments {
 public:
  UdpSegments();

  /// Where the socket receives to.
  [[nodiscard]] MutableBytes room() {
    return MutableBytes(buffer_).subspan(udp_frame_prefix_bytes_max);
  }
  /// What has been received to room(), by the socket of that address or group, which is of the
  /// peer's family. Nothing may be pending.
  void begin(const UdpArrival& arrival, const Gid& address);

  [[nodiscard]] bool pending() const { return pending_; }
  /// The next frame; valid until the next call. There must be one. An IPv4 header has the
  /// identification with which the ICRC is right, if there is one.
  [[nodiscard]] NetworkFrame next();

 private:
  /// Writes the headers of a packet that ends with the UDP payload; true if its ICRC is right.
  bool finish_ipv4(MutableBytes packet);
  bool finish_ipv6(MutableBytes packet);
  [[nodiscard]] inet::UdpHeader udp_header(std::size_t payload_bytes) const;

  std::vector<std::byte> buffer_;
  UdpArrival arrival_;
  std::size_t next_byte_ = 0;
  /// An empty datagram is a frame as well.
  bool pending_ = false;
  bool is_ipv4_ = true;
  Gid address_;
  inet::EthernetHeader ethernet_{};
  /// The one of the arrival's family, without length, identification and checksum.
  inet::Ipv4Header ipv4_{};
  inet::Ipv6Header ipv6_{};
  /// Segments of one batch are numbered one by one.
  std::uint16_t likely_identification_ = 0;
  roce::IdentificationSolver solver_;
};

}  // namespace verbena::ports
