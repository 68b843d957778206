// An injection: a failure that somebody outside asks a running device for (`verbena inject`). It is
// a datagram to the doorbell of the device's process; a mere ring is shorter.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/ids.h"
#include "nic_model/types.h"

namespace verbena::ports {

struct Injection {
  nic::AsyncEventType event = nic::AsyncEventType::device_fatal;
  /// The queue pair that it is for; nullopt: all.
  std::optional<Qpn> qpn;
};

inline constexpr std::size_t injection_bytes = 12;

/// The datagram of an injection.
[[nodiscard]] std::array<std::byte, injection_bytes> encode(const Injection& injection);
/// nullopt for what is no injection: a ring, or anything else.
[[nodiscard]] std::optional<Injection> decode_injection(ByteView datagram);

}  // namespace verbena::ports
