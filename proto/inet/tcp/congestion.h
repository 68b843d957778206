// How much may be on its way at once: slow start, congestion avoidance, fast retransmit and fast
// recovery (RFC 5681) as amended by NewReno (RFC 6582), limited transmit (RFC 3042), the initial
// window of RFC 6928.
//
//                 cwnd >= ssthresh
//   slow start ───────────────────▶ congestion avoidance
//      ▲   │                           │      ▲
//      │   └───────── third ───────────┤      │ all acknowledged that was sent
//      │              duplicate ACK    ▼      │ before recovery began
//      └────────── timeout ────── fast recovery
#pragma once

#include <cstdint>
#include <optional>

#include "proto/inet/tcp/sequence.h"

namespace verbena::inet {

class CongestionControl {
 public:
  /// RFC 5681, 3.2.
  static constexpr unsigned duplicates_wanted = 3;
  /// No peer's window is larger (RFC 7323, 2.3): there is nothing to grow for.
  static constexpr std::uint32_t window_bytes_max = 1U << 30;

  /// `mss` is what a segment carries: SMSS.
  explicit CongestionControl(std::uint32_t mss);

  /// Bytes that may be in flight, those of limited transmit included.
  [[nodiscard]] std::uint32_t window_bytes() const;
  [[nodiscard]] std::uint32_t slow_start_threshold() const { return threshold_; }
  [[nodiscard]] bool in_recovery() const { return recovery_until_.has_value(); }

  /// What the sender does after an ACK.
  enum class Action : std::uint8_t { none, retransmit_first };

  /// `una` to `acknowledged` was acknowledged for the first time; `max` is the end of what was
  /// sent.
  [[nodiscard]] Action on_new_ack(TcpSeq una, TcpSeq acknowledged, TcpSeq max);
  /// RFC 5681, 2: the same number once more while something is in flight.
  [[nodiscard]] Action on_duplicate_ack(TcpSeq una, TcpSeq max);
  /// The retransmission timer ran out. `again` if it did so before for the same segment.
  void on_timeout(TcpSeq una, TcpSeq max, bool again);
  /// Nothing was sent for longer than the retransmission timeout (RFC 5681, 4.1).
  void on_idle();

 private:
  [[nodiscard]] std::uint32_t initial_window() const;
  /// Up to window_bytes_max: a connection may carry 4 GiB without a loss, and a peer may repeat
  /// itself for ever.
  void grow(std::uint32_t bytes);
  /// RFC 5681, (4).
  void halve(std::uint32_t in_flight);

  std::uint32_t mss_;
  std::uint32_t window_;
  std::uint32_t threshold_ = UINT32_MAX;
  /// Congestion avoidance: bytes acknowledged since the window last grew.
  std::uint32_t acknowledged_ = 0;
  unsigned duplicates_ = 0;
  /// Fast recovery ends when this is acknowledged: "recover" of RFC 6582, 3.2.
  std::optional<TcpSeq> recovery_until_;
  /// No new fast retransmit for what was sent before the last one, or before a timeout.
  std::optional<TcpSeq> recovered_until_;
};

}  // namespace verbena::inet
