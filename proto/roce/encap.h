// Wrapping a transport packet into a frame: Ethernet, IP and UDP or GRH in front, ICRC behind.
// Read first: IBTA vol 1, annex A16 (RoCE v1), A17.3 (RoCE v2).
//
//     v2   | Ethernet 14 | IPv4 20 or IPv6 40 | UDP 8 | BTH .. pad | ICRC 4 | (Ethernet padding)
//     v1   | Ethernet 14 | GRH 40                     | BTH .. pad | ICRC 4 | (Ethernet padding)
//
// With a VLAN tag the Ethernet header has 18 bytes (IEEE 802.1Q, 9.6).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "proto/gid.h"
#include "proto/inet/headers.h"
#include "proto/inet/ip_address.h"
#include "proto/inet/mac_address.h"
#include "proto/packet_sink.h"
#include "proto/roce/icrc.h"

namespace verbena::roce {

inline constexpr std::uint16_t udp_port = 4791;  ///< IANA: RoCE v2.

/// The largest transport packet that a 16-bit length field can tell, whatever the version.
inline constexpr std::size_t transport_bytes_max =
    0xFFFF - inet::ipv4_header_bytes - inet::udp_header_bytes - icrc_bytes;

/// How packets travel to one peer.
struct Path {
  Version version = Version::v2_ipv4;
  inet::MacAddress destination_mac{};
  inet::MacAddress source_mac{};
  /// The content of the VLAN tag, if there is one: priority (3 bits), 0, VLAN identifier (12).
  std::optional<std::uint16_t> vlan_control{};
  /// For v2_ipv4 both are IPv4-mapped (gid_from_ipv4()).
  Gid source{};
  Gid destination{};
  /// IPv4 type of service or IPv6 and GRH traffic class: DSCP (6 bits), ECN (2).
  std::uint8_t traffic_class = 0;
  /// IPv4 time to live, or hop limit.
  std::uint8_t hop_limit = 64;
  /// IPv6 and GRH only, 20 bits.
  std::uint32_t flow_label = 0;
  /// IPv4 only. Datagrams are sent with DF, so it has no meaning (RFC 6864) but the ICRC covers it.
  std::uint16_t identification = 0;
  /// v2 only: see sport.h.
  std::uint16_t udp_source_port = 0xC000;
};

/// What to do with frames shorter than Ethernet allows (58 bytes: a SEND without data on RoCE
/// v2/IPv4).
enum class ShortFrames : std::uint8_t {
  keep,  ///< For a medium without a minimum, and one that pads by itself.
  pad,   ///< Zeros behind the ICRC up to inet::ethernet_frame_bytes_min.
};

/// The headers of a Path, laid out once and copied in front of every packet.
///
/// Per packet: write_prefix() with the size of the transport packet, the caller writes that packet
/// at frame[prefix_bytes()], then finish().
class Encapsulation {
 public:
  /// For v2_ipv4 both GIDs of the path must be IPv4-mapped.
  explicit Encapsulation(const Path& path, ShortFrames short_frames = ShortFrames::pad);

  [[nodiscard]] const Path& path() const { return path_; }
  /// What precedes the BTH.
  [[nodiscard]] std::size_t prefix_bytes() const { return prefix_bytes_; }
  /// Size of the whole frame (without FCS) around a transport packet of that size.
  [[nodiscard]] std::size_t frame_bytes(std::size_t transport_bytes) const;

  /// Writes the headers in front of a transport packet of `transport_bytes` (at most
  /// transport_bytes_max), with what the way fills in. `frame` has at least prefix_bytes().
  void write_prefix(MutableBytes frame, std::size_t transport_bytes,
                    const WayFields& way = {}) const;

  /// Writes the ICRC behind the transport packet of `transport_bytes` that now lies in `frame`, and
  /// the Ethernet padding. `frame` has at least frame_bytes(transport_bytes), which is returned.
  std::size_t finish(MutableBytes frame, std::size_t transport_bytes) const;

 private:
  static constexpr std::size_t prefix_bytes_max = inet::ethernet_header_bytes +
                                                  inet::vlan_tag_bytes + inet::ipv6_header_bytes +
                                                  inet::udp_header_bytes;

  void lay_out_ethernet();
  void lay_out_ipv4();
  void lay_out_ipv6();
  void lay_out_grh();

  Path path_;
  ShortFrames short_frames_;
  /// Where the IP header or GRH begins.
  std::size_t network_offset_ = 0;
  std::size_t prefix_bytes_ = 0;
  /// Headers with lengths and IPv4 header checksum still zero.
  std::array<std::byte, prefix_bytes_max> prefix_{};
  /// The IPv4 checksum of those headers, uncomplemented.
  std::uint32_t ipv4_sum_ = 0;
};

}  // namespace verbena::roce
