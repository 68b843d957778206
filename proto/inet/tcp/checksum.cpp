#include "proto/inet/tcp/checksum.h"

#include "proto/inet/headers.h"
#include "proto/inet/pseudo_header.h"

namespace verbena::inet {

std::uint16_t tcp_checksum(const Ipv4Address& source, const Ipv4Address& destination,
                           ByteView segment) {
  return checksum_with_pseudo_header(source, destination, ip_protocol_tcp, segment);
}

std::uint16_t tcp_checksum(const Ipv6Address& source, const Ipv6Address& destination,
                           ByteView segment) {
  return checksum_with_pseudo_header(source, destination, ip_protocol_tcp, segment);
}

}  // namespace verbena::inet
