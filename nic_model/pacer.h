// Holds a send queue to a rate. Packets are spread evenly; what a late timer or an idle queue left
// unused may be made up for in one burst, and no more than that.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace verbena::nic {

/// What a consumer asks for (ibv_modify_qp_rate_limit()).
struct RateLimit {
  /// In 1000 bits per second, of whole frames; 0: none.
  std::uint32_t kbps = 0;
  /// What may leave at once; at least what the rate lets through in `pacing_slack`.
  std::uint32_t burst_bytes = 0;
};

/// How late timers come in real time. A queue that could not make up for that would stay below its
/// rate.
inline constexpr Duration pacing_slack = std::chrono::microseconds(200);

class Pacer {
 public:
  void set(const RateLimit& limit) {
    limit_ = limit;
    next_ = Time{};
  }
  [[nodiscard]] const RateLimit& limit() const { return limit_; }
  [[nodiscard]] bool is_limited() const { return limit_.kbps != 0; }
  /// The next packet may leave from then on.
  [[nodiscard]] Time next() const { return next_; }
  [[nodiscard]] bool permits(Time now) const { return next_ <= now; }
  void sent(Time now, std::uint64_t bytes) {
    if (is_limited() && bytes > 0) {
      const Duration burst = std::max(duration_of(limit_.burst_bytes), pacing_slack);
      next_ = std::max(next_, now - burst) + duration_of(bytes);
    }
  }

 private:
  [[nodiscard]] Duration duration_of(std::uint64_t bytes) const {
    constexpr std::uint64_t bits_per_byte = 8;
    constexpr std::uint64_t ns_kbps = 1'000'000;  // A bit at 1 kb/s lasts a million nanoseconds.
    return Duration(static_cast<Duration::rep>(bytes * bits_per_byte * ns_kbps / limit_.kbps));
  }

  RateLimit limit_;
  Time next_{};
};

}  // namespace verbena::nic
