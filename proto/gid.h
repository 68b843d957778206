// Gid: the 128-bit global identifier that addresses a RoCE port. How it maps to IP and Ethernet
// addresses is proto/roce/gid.h.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

namespace verbena {

/// A global identifier (IBTA vol 1, 4.1.1): an IPv6 address in form, most significant byte first.
/// Alignment 1, so it can be a member of a wire struct.
struct Gid {
  std::array<std::uint8_t, 16> bytes{};

  friend constexpr auto operator<=>(const Gid&, const Gid&) = default;
};

}  // namespace verbena
