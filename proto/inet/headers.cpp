#include "proto/inet/headers.h"

#include <boost/endian/conversion.hpp>

namespace verbena::inet {

std::uint16_t internet_checksum(ByteView bytes) {
  // The sum of 16-bit words is the same, but for the order of its bytes, whichever way they are
  // read, and the same in words of 32 bits that are folded afterwards (RFC 1071, 2): so read them
  // as the machine likes and swap once.
  std::uint64_t sum = 0;
  for (; bytes.size() >= sizeof(std::uint32_t); bytes = bytes.subspan(sizeof(std::uint32_t))) {
    sum += read_struct<std::uint32_t>(bytes);
  }
  std::uint32_t rest = 0;
  copy_bytes(std::as_writable_bytes(std::span(&rest, 1)), bytes);
  sum += rest;
  while (sum > 0xFFFF) {
    sum = (sum & 0xFFFF) + (sum >> 16);
  }
  return boost::endian::native_to_big(static_cast<std::uint16_t>(~sum));
}

std::uint16_t ipv4_checksum(const Ipv4Header& header) {
  Ipv4Header blank = header;
  blank.checksum = 0;
  return internet_checksum(bytes_of(blank));
}

}  // namespace verbena::inet
