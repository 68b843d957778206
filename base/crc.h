// CRC-32 (Ethernet polynomial: the ICRC) and CRC-32C (Castagnoli: MPA), as running states, through
// ISA-L. A table-driven second implementation lives in tests/ as the oracle.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace verbena {

/// CRC-32, polynomial 0x04C11DB7 reflected, initial value all ones, final complement (as zlib's).
/// `crc` is the value returned for the bytes before, 0 to begin: crc32(crc32(0, a), b) is the CRC
/// of a followed by b.
[[nodiscard]] std::uint32_t crc32(std::uint32_t crc, ByteView bytes) noexcept;

/// CRC-32C, polynomial 0x1EDC6F41 reflected (RFC 3720 B.4), chained like crc32().
[[nodiscard]] std::uint32_t crc32c(std::uint32_t crc, ByteView bytes) noexcept;

}  // namespace verbena
