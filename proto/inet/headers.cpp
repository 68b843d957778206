#include "proto/inet/headers.h"

namespace verbena::inet {

std::uint16_t internet_checksum(ByteView bytes) {
  std::uint64_t sum = 0;
  std::size_t i = 0;
  for (; i + 1 < bytes.size(); i += 2) {
    sum += std::to_integer<std::uint64_t>(bytes[i]) << 8 |
           std::to_integer<std::uint64_t>(bytes[i + 1]);
  }
  if (i < bytes.size()) {
    sum += std::to_integer<std::uint64_t>(bytes[i]) << 8;
  }
  while (sum > 0xFFFF) {
    sum = (sum & 0xFFFF) + (sum >> 16);
  }
  return static_cast<std::uint16_t>(~sum);
}

std::uint16_t ipv4_checksum(const Ipv4Header& header) {
  Ipv4Header blank = header;
  blank.checksum = 0;
  return internet_checksum(bytes_of(blank));
}

}  // namespace verbena::inet
