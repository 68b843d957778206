// How long to wait for an acknowledgement before sending again (RFC 6298).
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/time.h"

namespace verbena::inet {

class RetransmissionTimeout {
 public:
  /// RFC 6298, (2.1): before anything is measured.
  static constexpr Duration initial = std::chrono::seconds(1);
  /// (2.4): what a shorter one is rounded up to. Linux takes 200 ms.
  static constexpr Duration min_default = std::chrono::seconds(1);
  /// (2.5): at least 60 s.
  static constexpr Duration max = std::chrono::seconds(60);

  explicit RetransmissionTimeout(Duration min = min_default) : min_(min) {}

  [[nodiscard]] Duration value() const { return value_; }
  [[nodiscard]] std::optional<Duration> smoothed_round_trip() const { return smoothed_; }

  /// A round trip of a segment that was sent once (Karn's algorithm is the caller's part).
  void measure(Duration round_trip) {
    if (!smoothed_) {
      smoothed_ = round_trip;  // (2.2)
      variation_ = round_trip / 2;
    } else {
      const Duration difference =
          *smoothed_ > round_trip ? *smoothed_ - round_trip : round_trip - *smoothed_;
      variation_ = (3 * variation_ + difference) / 4;  // (2.3): beta is 1/4,
      smoothed_ = (7 * *smoothed_ + round_trip) / 8;   // alpha 1/8.
    }
    value_ = measured();
  }

  /// It ran out: the next one is twice as long (5.5), until a round trip is measured.
  void back_off() { value_ = std::min(2 * value_, max); }

  /// The peer has answered all along, and it was its window that was closed.
  void forget_back_off() { value_ = measured(); }

  /// The SYN had to be sent again: data begin with three seconds (5.7).
  void syn_was_lost() {
    smoothed_.reset();
    value_ = std::max(min_, Duration(std::chrono::seconds(3)));
  }

 private:
  [[nodiscard]] Duration measured() const {
    return smoothed_ ? std::clamp(*smoothed_ + 4 * variation_, min_, max) : initial;
  }

  Duration min_;
  Duration value_ = initial;
  std::optional<Duration> smoothed_;
  Duration variation_{};
};

}  // namespace verbena::inet
