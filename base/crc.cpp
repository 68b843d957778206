#include "base/crc.h"

#include <isa-l/crc.h>

namespace verbena {

std::uint32_t crc32(std::uint32_t crc, ByteView bytes) noexcept {
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::uint32_t crc32c(std::uint32_t crc, ByteView bytes) noexcept {
  // crc32_iscsi() neither inverts its seed nor its result, and its prototype lacks const and takes
  // an int: calls are cut into pieces that fit.
  constexpr std::size_t piece_bytes_max = 1U << 30;
  crc = ~crc;
  while (!bytes.empty()) {
    const auto piece = bytes.first(bytes.size() < piece_bytes_max ? bytes.size() : piece_bytes_max);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(piece.data()));
    crc = crc32_iscsi(data, static_cast<int>(piece.size()), crc);
    bytes = bytes.subspan(piece.size());
  }
  return ~crc;
}

}  // namespace verbena
