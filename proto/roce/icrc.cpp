#include "proto/roce/icrc.h"

#include <array>
#include <boost/endian/buffers.hpp>

#include "base/crc.h"

namespace verbena::roce {
namespace {

/// CRC-32 of the eight bytes of ones that stand for the LRH: every ICRC begins here.
constexpr std::uint32_t crc_of_absent_lrh = 0x2144'DF1C;

/// Ones in the bits that count as ones, from the start of the network header to the end of the BTH.
template <Version version>
constexpr auto field_mask = [] {
  std::array<std::uint8_t, network_and_bth_bytes(version)> mask{};
  std::size_t bth = 0;
  if constexpr (version == Version::v2_ipv4) {
    mask[1] = 0xFF;              // Type of service.
    mask[8] = 0xFF;              // Time to live.
    mask[10] = mask[11] = 0xFF;  // Header checksum.
    bth = 28;
  } else {
    mask[0] = 0x0F;                      // Traffic class (8 bits across two bytes),
    mask[1] = mask[2] = mask[3] = 0xFF;  // flow label (20 bits).
    mask[7] = 0xFF;                      // Hop limit.
    bth = version == Version::v1 ? 40 : 48;
  }
  if constexpr (version != Version::v1) {
    mask[bth - 2] = mask[bth - 1] = 0xFF;  // UDP checksum.
  }
  mask[bth + 4] = 0xFF;  // FECN, BECN and six reserved bits.
  return mask;
}();

template <Version version>
std::uint32_t icrc_of(ByteView packet) {
  constexpr auto& mask = field_mask<version>;
  VERBENA_CHECK(packet.size() >= mask.size());
  std::array<std::byte, mask.size()> headers;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    headers[i] = packet[i] | std::byte{mask[i]};
  }
  return crc32(crc32(crc_of_absent_lrh, headers), packet.subspan(mask.size()));
}

}  // namespace

std::uint32_t icrc(Version version, ByteView packet) {
  switch (version) {
    case Version::v1:
      return icrc_of<Version::v1>(packet);
    case Version::v2_ipv4:
      return icrc_of<Version::v2_ipv4>(packet);
    case Version::v2_ipv6:
      break;
  }
  return icrc_of<Version::v2_ipv6>(packet);
}

void store_icrc(MutableBytes to, std::uint32_t value) {
  write_struct(to, boost::endian::little_uint32_buf_t(value));
}

std::uint32_t load_icrc(ByteView from) {
  return read_struct<boost::endian::little_uint32_buf_t>(from).value();
}

bool verify_icrc(Version version, ByteView packet) {
  VERBENA_CHECK(packet.size() >= icrc_bytes);
  const std::size_t covered_bytes = packet.size() - icrc_bytes;
  return icrc(version, packet.first(covered_bytes)) == load_icrc(packet.subspan(covered_bytes));
}

}  // namespace verbena::roce
