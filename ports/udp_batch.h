// Frames that leave through a UDP socket in one call: the kernel cuts what it is given into
// datagrams of one size (UDP_SEGMENT, "generic segmentation offload") and numbers their IPv4
// identifications 0, 1, 2, ... Measured on Linux 6.18, on a socket that isn't connected and sends
// with DF (IP_PMTUDISC_DO); a connected one numbers otherwise. IPv6 has no identification.
//
// Frames are built whole, so that a capture has them with their headers; the kernel gets what
// follows the UDP header.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "proto/gid.h"
#include "proto/inet/headers.h"

namespace verbena::ports {

/// What is in front of a UDP payload in a frame.
[[nodiscard]] constexpr std::size_t udp_frame_prefix_bytes(bool is_ipv4) {
  return inet::ethernet_header_bytes +
         (is_ipv4 ? inet::ipv4_header_bytes : inet::ipv6_header_bytes) + inet::udp_header_bytes;
}
inline constexpr std::size_t udp_frame_prefix_bytes_max = udp_frame_prefix_bytes(false);

/// What the datagrams of one call have in common.
struct UdpDestination {
  /// Position of the socket that they leave through.
  std::size_t socket = 0;
  Gid peer;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  /// IPv6 only.
  std::uint32_t flow_label = 0;

  friend bool operator==(const UdpDestination&, const UdpDestination&) = default;
};

class UdpBatch {
 public:
  /// UDP_MAX_SEGMENTS was 64 before Linux 6.9 (include/linux/udp.h).
  static constexpr std::size_t frames_max = 64;
  /// What an IPv4 packet holds (RFC 791: 16 bits of length), and an IPv6 packet as well.
  static constexpr std::size_t payload_bytes_max =
      0xFFFF - inet::ipv4_header_bytes - inet::udp_header_bytes;

  UdpBatch();

  /// Whether a frame can leave together with those that are here.
  [[nodiscard]] bool takes(const UdpDestination& destination, std::size_t frame_bytes) const;
  /// Room for a frame, which must be one that takes() said yes to.
  [[nodiscard]] MutableBytes reserve(const UdpDestination& destination, std::size_t frame_bytes);
  void commit();
  void clear();
  /// Each frame travels alone from now on: the kernel or the interface can't cut.
  void stop_cutting() { cuts_ = false; }

  [[nodiscard]] bool empty() const { return frames_ == 0; }
  [[nodiscard]] std::size_t frames() const { return frames_; }
  [[nodiscard]] const UdpDestination& destination() const { return destination_; }
  /// Size of all datagrams but the last, which may be shorter.
  [[nodiscard]] std::size_t segment_bytes() const { return payloads_[0].iov_len; }
  [[nodiscard]] std::span<const iovec> payloads() const {
    return std::span(payloads_).first(frames_);
  }
  /// The identification of the frame that was reserved last, if it is an IPv4 packet.
  [[nodiscard]] std::uint16_t identification() const { return static_cast<std::uint16_t>(frames_); }

 private:
  std::vector<std::byte> buffer_;
  std::array<iovec, frames_max> payloads_{};
  UdpDestination destination_;
  std::size_t frames_ = 0;
  std::size_t payload_bytes_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t reserved_bytes_ = 0;
  /// Nothing may follow the last frame.
  bool closed_ = false;
  bool cuts_ = true;
};

}  // namespace verbena::ports
