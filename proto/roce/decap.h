// Unwrapping a frame that may carry a RoCE packet. The inverse of encap.h; also reads RoCE v1 and
// VLAN tags, for captures and peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "proto/gid.h"
#include "proto/inet/ip_address.h"
#include "proto/inet/mac_address.h"
#include "proto/inet/parse.h"
#include "proto/roce/icrc.h"

namespace verbena::roce {

/// Why a frame yields no RoCE packet.
struct FrameError {
  enum class Kind : std::uint8_t {
    not_roce,            ///< A frame of another protocol; nothing is wrong with it.
    inet,                ///< `inet` tells what is wrong with Ethernet, IP or UDP.
    grh_truncated,       ///< Shorter than a GRH. expected/got: bytes.
    grh_version,         ///< expected/got: IP versions.
    grh_next_header,     ///< Not an IBA transport. expected/got: numbers.
    grh_payload_length,  ///< More than there is (got). In bytes.
    too_short,           ///< No room for BTH and ICRC. expected (at least)/got: bytes behind the
                         ///< network headers.
  };
  Kind kind{};
  std::size_t expected = 0;
  std::size_t got = 0;
  inet::ParseError inet{};

  friend constexpr bool operator==(const FrameError&, const FrameError&) = default;
};

/// The error in words.
[[nodiscard]] std::string describe(const FrameError& error);

/// A RoCE packet in a frame whose bytes belong to someone else and must outlive it. Nothing behind
/// the packet's own end (trailing Ethernet padding) is in it. Whether the ICRC is right has not
/// been looked at yet: icrc_is_good().
struct RoceFrame {
  Version version = Version::v2_ipv4;
  inet::MacAddress destination_mac{};
  inet::MacAddress source_mac{};
  std::optional<std::uint16_t> vlan_control;
  /// IPv4 addresses come as mapped GIDs.
  Gid source{};
  Gid destination{};
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;       ///< IPv6 and GRH only.
  std::uint16_t identification = 0;   ///< IPv4 only.
  std::uint16_t udp_source_port = 0;  ///< v2 only.
  std::uint16_t udp_checksum = 0;     ///< v2 only; not checked (annex A17.3.2: it is 0).
  /// From the IP header or GRH to the end of the ICRC.
  ByteView packet;
  /// BTH to end of pad, at least a BTH: what ib::PacketView::parse() takes.
  ByteView transport;

  /// ECN: 0 not capable, 1 and 2 capable, 3 congestion experienced (RFC 3168, 5).
  [[nodiscard]] unsigned ecn() const { return traffic_class & 3U; }
  /// The IP header or GRH: 20 or 40 bytes.
  [[nodiscard]] ByteView network_header() const;
  [[nodiscard]] std::uint32_t wire_icrc() const { return load_icrc(packet.last(icrc_bytes)); }
  [[nodiscard]] std::uint32_t computed_icrc() const {
    return icrc(version, packet.first(packet.size() - icrc_bytes));
  }
  [[nodiscard]] bool icrc_is_good() const { return wire_icrc() == computed_icrc(); }
};

/// Reads an Ethernet frame without FCS. RoCE v1 (EtherType 0x8915), RoCE v2 (UDP destination port
/// 4791) over IPv4 without options and over IPv6 without extension headers.
[[nodiscard]] Result<RoceFrame, FrameError> parse_frame(ByteView frame);

}  // namespace verbena::roce
