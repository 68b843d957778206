#include "proto/ib_bth/cm/service_id.h"

#include <algorithm>

namespace verbena::ib::cm {

namespace {

struct WireHeader {
  /// Major and minor version, four bits each (A11.4.1): 0.
  std::uint8_t version = 0;
  /// Upper four bits.
  std::uint8_t ip_version = 0;
  boost::endian::big_uint16_buf_t port{};
  /// An IPv4 address is in the last four bytes; before it are zeros.
  Gid source;
  Gid destination;
};
static_assert(is_wire_struct<WireHeader, ip_header_bytes>);

constexpr std::size_t ipv4_at = 12;
/// ::ffff:0:0/96 (RFC 4291, 2.5.5.2).
constexpr std::size_t mapped_mark_at = 10;

Gid to_mapped(Gid gid) {
  std::fill_n(gid.bytes.begin(), mapped_mark_at, std::uint8_t{0});
  std::fill(gid.bytes.begin() + mapped_mark_at, gid.bytes.begin() + ipv4_at, std::uint8_t{0xFF});
  return gid;
}

Gid without_mapping(Gid gid) {
  std::fill_n(gid.bytes.begin(), ipv4_at, std::uint8_t{0});
  return gid;
}

}  // namespace

std::optional<IpHeader> parse_ip_header(ByteView bytes) {
  if (bytes.size() < ip_header_bytes) {
    return std::nullopt;
  }
  const auto wire = read_struct<WireHeader>(bytes);
  IpHeader header{.ip_version = static_cast<std::uint8_t>(wire.ip_version >> 4),
                  .source_port = wire.port.value(),
                  .source = wire.source,
                  .destination = wire.destination};
  if (wire.version >> 4 != 0 || (header.ip_version != 4 && header.ip_version != 6)) {
    return std::nullopt;
  }
  if (header.ip_version == 4) {
    header.source = to_mapped(header.source);
    header.destination = to_mapped(header.destination);
  }
  return header;
}

std::array<std::byte, ip_header_bytes> emit(const IpHeader& header) {
  WireHeader wire;
  wire.ip_version = static_cast<std::uint8_t>(header.ip_version << 4);
  wire.port = header.source_port;
  const bool is_v4 = header.ip_version == 4;
  wire.source = is_v4 ? without_mapping(header.source) : header.source;
  wire.destination = is_v4 ? without_mapping(header.destination) : header.destination;
  std::array<std::byte, ip_header_bytes> bytes{};
  write_struct(bytes, wire);
  return bytes;
}

}  // namespace verbena::ib::cm
