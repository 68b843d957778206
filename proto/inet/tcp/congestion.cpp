#include "proto/inet/tcp/congestion.h"

#include <algorithm>

namespace verbena::inet {

CongestionControl::CongestionControl(std::uint32_t mss) : mss_(mss), window_(initial_window()) {}

std::uint32_t CongestionControl::initial_window() const {
  // RFC 6928, (1).
  constexpr std::uint32_t bytes = 14600;
  return std::min(10 * mss_, std::max(2 * mss_, bytes));
}

std::uint32_t CongestionControl::window_bytes() const {
  // Limited transmit: each of the first two duplicates lets out a segment (RFC 3042, 2).
  const bool is_limited_transmit = !in_recovery() && duplicates_ < duplicates_wanted;
  return window_ + (is_limited_transmit ? duplicates_ * mss_ : 0);
}

void CongestionControl::grow(std::uint32_t bytes) {
  window_ = std::min(window_ + bytes, window_bytes_max);
}

void CongestionControl::halve(std::uint32_t in_flight) {
  threshold_ = std::max(in_flight / 2, 2 * mss_);
}

CongestionControl::Action CongestionControl::on_new_ack(TcpSeq una, TcpSeq acknowledged,
                                                        TcpSeq max) {
  const std::uint32_t bytes = bytes_between(una, acknowledged);
  duplicates_ = 0;
  if (in_recovery()) {
    if (acknowledged.is_before(*recovery_until_)) {
      // A partial acknowledgement: the next segment is lost too (RFC 6582, 3.2, step 3).
      window_ -= std::min(window_ - mss_, bytes);
      window_ += bytes >= mss_ ? mss_ : 0;
      return Action::retransmit_first;
    }
    // Option 1: no burst if little is in flight.
    window_ = std::min(threshold_, std::max(bytes_between(acknowledged, max), mss_) + mss_);
    recovered_until_ = recovery_until_;
    recovery_until_.reset();
    return Action::none;
  }
  if (window_ < threshold_) {
    grow(std::min(bytes, mss_));
    return Action::none;
  }
  acknowledged_ += bytes;
  if (acknowledged_ >= window_) {
    acknowledged_ -= window_;
    grow(mss_);
  }
  return Action::none;
}

CongestionControl::Action CongestionControl::on_duplicate_ack(TcpSeq una, TcpSeq max) {
  if (in_recovery()) {
    grow(mss_);  // A segment has left the network (RFC 5681, 3.2, step 4).
    return Action::none;
  }
  ++duplicates_;
  if (duplicates_ != duplicates_wanted) {
    return Action::none;
  }
  if (recovered_until_ && una.is_before(*recovered_until_)) {
    return Action::none;  // They answer what was sent again (RFC 6582, 3.2, step 2).
  }
  halve(bytes_between(una, max));
  window_ = threshold_ + duplicates_wanted * mss_;
  recovery_until_ = max;
  return Action::retransmit_first;
}

void CongestionControl::on_timeout(TcpSeq una, TcpSeq max, bool again) {
  if (!again) {
    halve(bytes_between(una, max));
  }
  window_ = mss_;  // The loss window (RFC 5681, 3.1).
  acknowledged_ = 0;
  duplicates_ = 0;
  recovery_until_.reset();
  recovered_until_ = max;
}

void CongestionControl::on_idle() { window_ = std::min(window_, initial_window()); }

}  // namespace verbena::inet
