// How long the IP packets of a device may get, and an Ethernet's.
#pragma once

#include <array>
#include <cstddef>

#include "nic_model/types.h"
#include "proto/ib_bth/opcode.h"
#include "proto/inet/headers.h"
#include "proto/roce/icrc.h"

namespace verbena::ports {

/// All path MTUs that there are, the smallest first.
inline constexpr std::array mtus = {nic::Mtu::mtu_256, nic::Mtu::mtu_512, nic::Mtu::mtu_1024,
                                    nic::Mtu::mtu_2048, nic::Mtu::mtu_4096};

/// IEEE 802.3: what every Ethernet carries, and most carry no more.
inline constexpr std::size_t ethernet_mtu_bytes = 1500;

/// The most that an IP packet has around the data of a RoCE packet: IP, UDP, BTH, the extension
/// headers of the packet with data that has the longest ones, ICRC.
[[nodiscard]] constexpr std::size_t packet_overhead_bytes(std::size_t ip_header_bytes) {
  return ip_header_bytes + inet::udp_header_bytes +
         ib::opcode_info(ib::Opcode::xrc_write_only_imm).header_bytes + roce::icrc_bytes;
}

}  // namespace verbena::ports
