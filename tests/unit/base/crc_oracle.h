// A second implementation of both CRCs, one bit at a time, straight from their definition. Slow and
// plain: it is what base/crc.h is compared with.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace verbena::oracle {

/// The CRC of `bytes` for a reflected polynomial, initial value and final complement all ones.
constexpr std::uint32_t crc_bitwise(std::uint32_t reflected_polynomial, ByteView bytes) {
  std::uint32_t crc = 0xFFFF'FFFF;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? reflected_polynomial : 0);
    }
  }
  return ~crc;
}

/// IEEE 802.3, 3.2.9: 0x04C11DB7, bits reversed.
constexpr std::uint32_t crc32(ByteView bytes) { return crc_bitwise(0xEDB8'8320, bytes); }

/// RFC 3720 12.1: 0x1EDC6F41, bits reversed.
constexpr std::uint32_t crc32c(ByteView bytes) { return crc_bitwise(0x82F6'3B78, bytes); }

}  // namespace verbena::oracle
