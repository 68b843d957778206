// Service IDs of the RDMA IP CM service: how TCP-like ports and IP addresses travel in messages of
// the communication manager.
// Read first: IBTA vol 1, annex A11 (RDMA IP CM service).
#pragma once

#include <array>
#include <boost/endian/buffers.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "proto/gid.h"
#include "proto/ib_bth/cm/messages.h"

namespace verbena::ib::cm {

/// Port spaces: the numbers of <rdma/rdma_cma.h>. Ports of different spaces have nothing to do with
/// each other. In `ib` the service ID itself is the address.
enum class PortSpace : std::uint16_t {
  ipoib = 0x0002,
  tcp = 0x0106,
  udp = 0x0111,
  ib = 0x013F,
};

/// A11.2: the port space above a 16-bit port.
[[nodiscard]] constexpr ServiceId service_id_of(PortSpace space, std::uint16_t port) {
  return ServiceId{std::uint64_t{static_cast<std::uint16_t>(space)} << 16 | port};
}

/// The port of a service ID of that space; nullopt if it belongs to another one.
[[nodiscard]] constexpr std::optional<std::uint16_t> port_of(ServiceId id, PortSpace space) {
  const auto port = static_cast<std::uint16_t>(to_value(id));
  return service_id_of(space, port) == id ? std::optional(port) : std::nullopt;
}

/// What the private data of a REQ and a SIDR_REQ begins with (A11.4.1): source port and the IP
/// addresses that the active side means. The consumer's private data follows.
struct IpHeader {
  /// 4 or 6.
  std::uint8_t ip_version = 4;
  std::uint16_t source_port = 0;
  /// IPv4 addresses as mapped GIDs.
  Gid source;
  Gid destination;

  friend bool operator==(const IpHeader&, const IpHeader&) = default;
};
inline constexpr std::size_t ip_header_bytes = 36;

/// nullopt if `bytes` is too short, of another major version, or of an IP version that isn't 4
/// or 6.
[[nodiscard]] std::optional<IpHeader> parse_ip_header(ByteView bytes);
[[nodiscard]] std::array<std::byte, ip_header_bytes> emit(const IpHeader& header);

}  // namespace verbena::ib::cm
