// The invariant CRC: the end-to-end checksum of a RoCE packet.
// Read first: IBTA vol 1, 7.8.1 (ICRC), annex A16.5.1.4 (RoCE v1), A17.3.3 (RoCE v2).
//
// CRC-32 over eight bytes of ones, which stand for the LRH that Ethernet lacks, and over the packet
// from its IP header or GRH to the end of the pad. Fields that a router may change count as all
// ones:
//
//     RoCE v2, IPv4   type of service, time to live, header checksum; UDP checksum; BTH byte 4
//     RoCE v2, IPv6   traffic class, flow label, hop limit; UDP checksum; BTH byte 4
//     RoCE v1         traffic class, flow label, hop limit of the GRH; BTH byte 4
//
// All else is covered: also IPv4 identification and total length, so it is computed last.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace verbena::roce {

/// Which way a RoCE packet is wrapped.
enum class Version : std::uint8_t {
  v1,       ///< EtherType 0x8915, GRH.
  v2_ipv4,  ///< UDP port 4791 over IPv4.
  v2_ipv6,  ///< UDP port 4791 over IPv6.
};

inline constexpr std::size_t icrc_bytes = 4;

/// IP header (without options) or GRH, UDP header where there is one, and BTH: the shortest packet
/// that has an ICRC.
[[nodiscard]] constexpr std::size_t network_and_bth_bytes(Version version) {
  switch (version) {
    case Version::v1:
      return 40 + 12;
    case Version::v2_ipv4:
      return 20 + 8 + 12;
    case Version::v2_ipv6:
      break;
  }
  return 40 + 8 + 12;
}

/// The ICRC of `packet`, which begins with the IP header or GRH, ends before the ICRC and has at
/// least network_and_bth_bytes().
[[nodiscard]] std::uint32_t icrc(Version version, ByteView packet);

/// The ICRC on the wire: least significant byte first.
void store_icrc(MutableBytes to, std::uint32_t value);
[[nodiscard]] std::uint32_t load_icrc(ByteView from);

/// Whether the last four bytes of `packet` are the ICRC of what precedes them. `packet` has at
/// least network_and_bth_bytes() + icrc_bytes.
[[nodiscard]] bool verify_icrc(Version version, ByteView packet);

}  // namespace verbena::roce
