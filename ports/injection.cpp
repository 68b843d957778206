#include "ports/injection.h"

namespace verbena::ports {

namespace {

/// Of one host, so in its byte order.
struct Datagram {
  std::uint32_t magic;
  std::uint32_t event;
  std::uint32_t qpn;
};
static_assert(sizeof(Datagram) == injection_bytes);

constexpr std::uint32_t injection_magic = 0x5642'4F31;
/// No QPN has more than 24 bits.
constexpr std::uint32_t all_qps = 0xFFFF'FFFF;

}  // namespace

std::array<std::byte, injection_bytes> encode(const Injection& injection) {
  std::array<std::byte, injection_bytes> datagram{};
  write_struct(datagram, Datagram{.magic = injection_magic,
                                  .event = static_cast<std::uint32_t>(injection.event),
                                  .qpn = injection.qpn ? to_value(*injection.qpn) : all_qps});
  return datagram;
}

std::optional<Injection> decode_injection(ByteView datagram) {
  if (datagram.size() != injection_bytes) {
    return std::nullopt;
  }
  const auto fields = read_struct<Datagram>(datagram);
  if (fields.magic != injection_magic || fields.event > 0xFF ||
      !nic::is_known(static_cast<nic::AsyncEventType>(fields.event)) ||
      (fields.qpn > qpn_mask && fields.qpn != all_qps)) {
    return std::nullopt;
  }
  return Injection{.event = static_cast<nic::AsyncEventType>(fields.event),
                   .qpn = fields.qpn == all_qps ? std::nullopt : std::optional(Qpn{fields.qpn})};
}

}  // namespace verbena::ports
