// Time in the core: integer nanoseconds, always passed in. There is no now() here: the caller owns
// the clock (the engine reads CLOCK_MONOTONIC, the simulator its own event queue).
#pragma once

#include <chrono>
#include <cstdint>

namespace verbena {

/// Tag of the NIC's time line. It deliberately has no now().
struct NicClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<NicClock>;
  static constexpr bool is_steady = true;
};

using Duration = NicClock::duration;
using Time = NicClock::time_point;

/// "Never": later than every real deadline.
inline constexpr Time time_never = Time::max();

}  // namespace verbena
