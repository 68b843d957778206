// How long a call may wait: not at all, without end, or until its socket's time is over
// (SO_RCVTIMEO, SO_SNDTIMEO).
#pragma once

#include <algorithm>
#include <chrono>

namespace verbena::rsocket {

class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;

  [[nodiscard]] static Patience none() { return Patience(Clock::time_point::min()); }
  [[nodiscard]] static Patience endless() { return Patience(Clock::time_point::max()); }
  /// From now on for so long; 0 is without end, as in a timeval of setsockopt().
  [[nodiscard]] static Patience limited(Milliseconds limit) {
    return limit == Milliseconds(0) ? endless() : Patience(Clock::now() + limit);
  }

  [[nodiscard]] bool is_over() const {
    return deadline_ != Clock::time_point::max() &&
           (deadline_ == Clock::time_point::min() || Clock::now() >= deadline_);
  }
  /// For poll(): what is left, rounded up, but no more than `most`.
  [[nodiscard]] Milliseconds left(Milliseconds most) const {
    if (deadline_ == Clock::time_point::max()) {
      return most;
    }
    if (is_over()) {
      return Milliseconds(0);
    }
    return std::min(most, std::chrono::ceil<Milliseconds>(deadline_ - Clock::now()));
  }

 private:
  explicit Patience(Clock::time_point deadline) : deadline_(deadline) {}
  Clock::time_point deadline_;
};

}  // namespace verbena::rsocket
