#include "proto/inet/pseudo_header.h"

#include <boost/endian/buffers.hpp>

#include "base/check.h"
#include "proto/inet/headers.h"

namespace verbena::inet {

namespace {

struct Ipv4PseudoHeader {
  Ipv4Address source;
  Ipv4Address destination;
  std::uint8_t zero = 0;
  std::uint8_t protocol = 0;
  boost::endian::big_uint16_buf_t bytes{};
};
static_assert(is_wire_struct<Ipv4PseudoHeader, 12>);

struct Ipv6PseudoHeader {
  Ipv6Address source;
  Ipv6Address destination;
  boost::endian::big_uint32_buf_t bytes{};
  boost::endian::big_uint32_buf_t next_header{};
};
static_assert(is_wire_struct<Ipv6PseudoHeader, 40>);

/// The checksum of two pieces, the first of an even length.
std::uint16_t joined_checksum(ByteView first, ByteView second) {
  const std::uint32_t sum = std::uint32_t{internet_checksum(first)} + internet_checksum(second);
  // Both are complements: ~a + ~b is ~(a + b) in ones' complement.
  const std::uint32_t folded = (sum & 0xFFFF) + (sum >> 16);
  const auto complement_of_sum = static_cast<std::uint16_t>((folded & 0xFFFF) + (folded >> 16));
  return complement_of_sum == 0xFFFF ? std::uint16_t{0} : complement_of_sum;
}

}  // namespace

std::uint16_t checksum_with_pseudo_header(const Ipv4Address& source, const Ipv4Address& destination,
                                          std::uint8_t protocol, ByteView packet) {
  VERBENA_CHECK(packet.size() <= 0xFFFF);
  Ipv4PseudoHeader pseudo{.source = source, .destination = destination, .protocol = protocol};
  pseudo.bytes = static_cast<std::uint16_t>(packet.size());
  return joined_checksum(bytes_of(pseudo), packet);
}

std::uint16_t checksum_with_pseudo_header(const Ipv6Address& source, const Ipv6Address& destination,
                                          std::uint8_t protocol, ByteView packet) {
  VERBENA_CHECK(packet.size() <= 0xFFFF);
  Ipv6PseudoHeader pseudo{.source = source, .destination = destination};
  pseudo.bytes = static_cast<std::uint32_t>(packet.size());
  pseudo.next_header = protocol;
  return joined_checksum(bytes_of(pseudo), packet);
}

}  // namespace verbena::inet
