// What a device makes of ICRCs, for peers that can't compute one, such as switches that are
// programmed to take part in RoCE.
#pragma once

#include <cstdint>

namespace verbena::ports {

/// What it sends: the right one, one that is wrong for certain, or 0.
enum class IcrcSent : std::uint8_t { good, bad, zero };

/// A frame with a wrong one is dropped, or taken and counted, or nobody looks.
enum class IcrcCheck : std::uint8_t { on, count, off };

}  // namespace verbena::ports
