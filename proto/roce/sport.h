// The UDP source port of RoCE v2: entropy for ECMP that both ends compute alike.
// Read first: IBTA vol 1, annex A17.9.2; rdma-core's ibv_flow_label_to_udp_sport().
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace verbena::roce {

/// Ports that carry entropy: 0xC000 to 0xFFFF, the dynamic range.
inline constexpr std::uint16_t udp_source_port_min = 0xC000;

/// The flow label that stands for a pair of QPNs, 20 bits. Symmetric: both directions have the
/// same.
[[nodiscard]] constexpr std::uint32_t flow_label_from_qpns(Qpn local, Qpn remote) {
  std::uint64_t v = std::uint64_t{to_value(local)} * to_value(remote);
  v ^= v >> 20;
  v ^= v >> 40;
  return static_cast<std::uint32_t>(v & 0xF'FFFF);
}

/// The port of a flow label (its low 20 bits): upper six bits folded into the lower fourteen.
[[nodiscard]] constexpr std::uint16_t udp_source_port(std::uint32_t flow_label) {
  return static_cast<std::uint16_t>(((flow_label & 0x3FFF) ^ ((flow_label & 0xF'C000) >> 14)) |
                                    udp_source_port_min);
}

/// The port of a connection between two QPs.
[[nodiscard]] constexpr std::uint16_t udp_source_port(Qpn local, Qpn remote) {
  return udp_source_port(flow_label_from_qpns(local, remote));
}

}  // namespace verbena::roce
