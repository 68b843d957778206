// Finding the IPv4 identification of a packet from its ICRC. A UDP socket doesn't show that field
// to the receiver, but the ICRC covers it.
//
// A CRC is linear: the difference of the ICRC that came and the one that was computed with a wrong
// identification depends on nothing but the difference of the two identifications and the number of
// bytes behind them. Moved back over those bytes, a multiplication by x^(-8 n) modulo the CRC's
// polynomial, it is the difference of the identifications, as it lies in the packet. Where
// something else is wrong as well, it doesn't fit into the 16 bits of the field.
//
//     | version .. length | identification | flags .. pad | ICRC |
//                           ◀───────────── n bytes ──────▶
//
// The price: 65,536 of the 2^32 ICRCs are accepted where one was. A random change gets past with a
// chance of 2^-16, unless the identification was guessed right, and past the UDP checksum (which
// Linux sends and checks) with 2^-32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace verbena::roce {

class IdentificationSolver {
 public:
  /// The identification with which the ICRC of `packet` is right: the one that it carries, if that
  /// is; nullopt if there is none, so that the packet is corrupt. `packet` is RoCE v2 from the IPv4
  /// header to the end of the ICRC; too short for one: nullopt.
  [[nodiscard]] std::optional<std::uint16_t> solve(ByteView packet);

 private:
  /// x^(-8 n) for the number of bytes of the last packet that had to be solved: packets of one
  /// length come in rows.
  std::size_t bytes_ = 0;
  std::uint32_t inverse_ = 0;
};

/// Gives a RoCE v2 packet, from the IPv4 header to the end of the ICRC, another identification. IP
/// checksum and ICRC follow by their differences: if they were wrong, they stay so.
/// `packet` has at least network_and_bth_bytes() and an ICRC.
void change_identification(MutableBytes packet, std::uint16_t identification);

}  // namespace verbena::roce
