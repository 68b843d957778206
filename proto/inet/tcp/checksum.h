// The checksum of TCP: over a pseudo header of the IP layer and the whole segment (RFC 9293, 3.1;
// RFC 8200, 8.1).
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "proto/inet/ip_address.h"

namespace verbena::inet {

/// What belongs into the checksum field of `segment`, if that holds 0 now; 0 if it holds the right
/// one. The segment is shorter than 64 KiB.
[[nodiscard]] std::uint16_t tcp_checksum(const Ipv4Address& source, const Ipv4Address& destination,
                                         ByteView segment);
[[nodiscard]] std::uint16_t tcp_checksum(const Ipv6Address& source, const Ipv6Address& destination,
                                         ByteView segment);

}  // namespace verbena::inet
