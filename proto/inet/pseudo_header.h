// Checksums that cover a pseudo header of the IP layer: those of TCP (RFC 9293, 3.1) and of ICMPv6
// (RFC 4443, 2.3; RFC 8200, 8.1).
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "proto/inet/ip_address.h"

namespace verbena::inet {

/// What belongs into the checksum field of `packet`, if that holds 0 now; 0 if it holds the right
/// one. The packet is shorter than 64 KiB.
[[nodiscard]] std::uint16_t checksum_with_pseudo_header(const Ipv4Address& source,
                                                        const Ipv4Address& destination,
                                                        std::uint8_t protocol, ByteView packet);
[[nodiscard]] std::uint16_t checksum_with_pseudo_header(const Ipv6Address& source,
                                                        const Ipv6Address& destination,
                                                        std::uint8_t protocol, ByteView packet);

}  // namespace verbena::inet
