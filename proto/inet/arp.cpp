#include "proto/inet/arp.h"

namespace verbena::inet {

std::optional<ArpPacket> parse_arp(ByteView bytes) {
  if (bytes.size() < arp_packet_bytes) {
    return std::nullopt;
  }
  const auto packet = read_struct<ArpPacket>(bytes);
  const bool is_of_ipv4_over_ethernet = packet.hardware.value() == ArpPacket::hardware_ethernet &&
                                        packet.protocol.value() == ethertype_ipv4 &&
                                        packet.hardware_bytes == sizeof(MacAddress) &&
                                        packet.protocol_bytes == sizeof(Ipv4Address);
  const std::uint16_t operation = packet.operation.value();
  const bool is_known_operation =
      operation == ArpPacket::operation_request || operation == ArpPacket::operation_reply;
  if (!is_of_ipv4_over_ethernet || !is_known_operation || packet.sender_mac.is_group() ||
      packet.sender.is_multicast()) {
    return std::nullopt;
  }
  return packet;
}

}  // namespace verbena::inet
