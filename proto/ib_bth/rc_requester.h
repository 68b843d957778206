// The requester of a reliable connection: turns work requests into request packets, and responses
// into completions. Read first: IBTA vol 1, 9.7.2 to 9.7.3 (requests), 9.7.5.2 (responses), 9.7.6
// (ordering), 9.9.2 (errors of the requester).
//
// One request goes through
//
//     posted ──start──► in flight ──all PSNs acknowledged, data in place──► completed
//                        │    ▲
//                        └────┘ go back: timeout, NAK "PSN sequence error", implied NAK, RNR NAK
//
// Binding a window and invalidating one need no packet: done when their turn to be sent comes, they
// complete with what is before them.
//
// and PSNs fall into
//
//          una              sent               next
//     ──────┼────────────────┼──────────────────┼──────►
//     acked │ in flight      │ assigned, unsent │ free
//
// The cursor (request, packet in it) is what is sent next. It normally stands at `sent`; to go back
// is to put it at an earlier PSN and walk on from there, so that everything behind the lost packet
// is sent again (go-back-N).
//
// rc_requester.cpp holds the way out, rc_completer.cpp the way back.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "proto/ib_bth/connection.h"
#include "proto/ib_bth/emit.h"
#include "proto/ib_bth/packet.h"
#include "proto/ib_bth/transport_env.h"
#include "proto/packet_sink.h"
#include "proto/send_queue.h"
#include "proto/verdict.h"
#include "proto/work.h"

namespace verbena::ib {

struct RcRequesterConfig {
  Psn first_psn;
  /// How long to wait for an acknowledgement; nullopt: for ever.
  std::optional<Duration> ack_timeout{};
  /// Attempts after the first one, 0 to 7.
  std::uint8_t retry_cnt = 7;
  /// RNR NAKs to put up with, 0 to 6; 7: any number (IBTA vol 1, 9.7.5.2.8).
  std::uint8_t rnr_retry = 7;
  /// READs, atomics and FLUSHes in flight at most. 0: none may be posted.
  std::uint8_t max_rd_atomic = 1;
};

/// rnr_retry of this value never ends.
inline constexpr std::uint8_t rnr_retry_infinite = 7;

/// Packets in flight at most. It bounds what a loss costs and what a receiver has to buffer; the
/// protocol itself would allow 2^23 (IBTA vol 1, 9.7.1).
inline constexpr std::uint32_t inflight_packets_max = 256;
/// In a long message every so many packets ask for an ACK, so that the window moves on.
inline constexpr std::uint32_t ack_request_interval = inflight_packets_max / 4;

class RcRequester {
 public:
  /// `completions` must outlive the requester.
  RcRequester(Qpn qpn, const SendQueueLimits& limits, bool signal_all, CompletionSink& completions);

  // Getters.
  [[nodiscard]] const SendQueueLimits& limits() const { return queue_.limits(); }
  /// Nothing is in flight: requests not yet begun don't count (IBTA vol 1, 10.3.1.5, SQ drained).
  [[nodiscard]] bool is_drained() const;
  /// Requests that can still be posted.
  [[nodiscard]] std::size_t room() const { return queue_.room(); }
  /// PSN of the next new packet.
  [[nodiscard]] Psn next_psn() const { return next_psn_; }
  [[nodiscard]] Time next_timeout() const;
  /// The ACK timer has run out, and the next on_timer() takes it for a loss.
  [[nodiscard]] bool is_ack_overdue(Time now) const { return ack_deadline_ <= now; }

  // Commands.
  /// RTR to RTS: from now on requests are sent.
  void activate(const Connection& connection, const RcRequesterConfig& config);
  /// Changes what a modify in RTS or SQD may change: all but the PSN. Retries begin anew.
  void reconfigure(const RcRequesterConfig& config);
  /// SQD: finish what was begun, begin nothing new.
  void set_draining(bool draining) { draining_ = draining; }
  /// Whether there is another way to the peer: then a request that has no retries left is not given
  /// up, but sent again by that one (IBTA vol 1, 17.2.8.1.3).
  void set_has_alternate_path(bool has_one) { has_alternate_path_ = has_one; }
  /// Whether the first way was given up since it was asked last: packets go the other way now.
  [[nodiscard]] bool take_path_exhausted() { return std::exchange(path_exhausted_, false); }
  [[nodiscard]] Result<void, PostError> post(const SendWr& wr);
  /// The QP is in error: completes everything posted with wr_flush_err.
  void flush(TransportEnv& env);
  /// Reset: forgets everything; nothing completes.
  void reset();

  // Events in. Each may end the QP.
  struct Outcome {
    RxVerdict verdict;
    QpFailure failure = QpFailure::none;
  };
  [[nodiscard]] Outcome on_response(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] QpFailure on_timer(TransportEnv& env);
  /// The ACK timer begins anew: what it waits for hasn't been lost.
  void renew_ack_timer(TransportEnv& env);

  // Effects out.
  struct Transmitted {
    TransmitResult result = TransmitResult::idle;
    QpFailure failure = QpFailure::none;
  };
  /// Sends up to `packets_max` packets and takes what it sent off `packets_max`.
  [[nodiscard]] Transmitted poll_transmit(TransportEnv& env, PacketSink& sink,
                                          std::uint32_t& packets_max);
  /// Whether poll_transmit() would find something to do.
  [[nodiscard]] bool wants_transmit() const;

 private:
  /// What is sent next: packet `packet` of request `index`.
  struct Cursor {
    std::uint64_t index = 0;
    std::uint32_t packet = 0;
  };

  // The way out (rc_requester.cpp).
  [[nodiscard]] bool may_start(const SendWqe& wqe) const;
  [[nodiscard]] bool start(TransportEnv& env, std::uint64_t index);
  [[nodiscard]] bool execute_local(TransportEnv& env, std::uint64_t index);
  [[nodiscard]] bool window_is_full() const;
  [[nodiscard]] bool emit(TransportEnv& env, PacketSink& sink);
  [[nodiscard]] bool emit_data(TransportEnv& env, PacketSink& sink, const SendWqe& wqe);
  [[nodiscard]] bool emit_without_data(PacketSink& sink, const SendWqe& wqe);
  [[nodiscard]] PacketNote note_of(Psn psn) const;
  void advance_cursor(TransportEnv& env, const SendWqe& wqe, std::uint32_t packets);
  void go_back(TransportEnv& env, PacketNote::Cause cause);
  [[nodiscard]] Psn cursor_psn(const SendWqe& wqe) const {
    return wqe.first_psn + static_cast<std::int32_t>(cursor_.packet);
  }

  // The way back (rc_completer.cpp).
  [[nodiscard]] Outcome dispatch_response(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] Outcome on_acknowledge(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] Outcome on_nak(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] Outcome on_rnr_nak(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] Outcome on_read_response(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] Outcome on_atomic_acknowledge(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] bool acknowledge_before(TransportEnv& env, Psn psn);
  [[nodiscard]] Outcome imply_nak(TransportEnv& env, Psn got);
  [[nodiscard]] QpFailure retry(TransportEnv& env, PacketNote::Cause cause);
  [[nodiscard]] QpFailure fail_head(TransportEnv& env, WcStatus status);
  [[nodiscard]] QpFailure check_local_failure(TransportEnv& env);
  void complete_head(TransportEnv& env, WcStatus status);
  void complete_local_operations(TransportEnv& env);
  void on_progress(TransportEnv& env);
  void arm_ack_timer(TransportEnv& env);
  [[nodiscard]] std::uint32_t acknowledged_packets_of_head() const;
  [[nodiscard]] std::uint32_t distance_from_una(Psn psn) const;
  [[nodiscard]] bool is_in_flight(Psn psn) const;

  Qpn qpn_;
  SendQueue queue_;
  bool signal_all_;
  CompletionSink& completions_;
  Connection connection_;
  RcRequesterConfig config_;
  bool active_ = false;
  bool draining_ = false;
  bool has_alternate_path_ = false;
  bool path_exhausted_ = false;

  Psn una_;
  Psn sent_;
  Psn next_psn_;
  Cursor cursor_;
  /// READs, atomics and FLUSHes begun and not completed.
  std::uint32_t rd_atomics_in_flight_ = 0;
  /// A request that can't be sent, for the status given: it fails once it is the oldest.
  struct LocalFailure {
    std::uint64_t index;
    WcStatus status;
  };
  std::optional<LocalFailure> local_failure_;

  std::uint8_t retries_left_ = 0;
  std::uint8_t rnr_retries_left_ = 0;
  /// Why and for the how-manieth time packets before `sent_` are being sent again.
  PacketNote::Cause retry_cause_ = PacketNote::Cause::none;
  std::uint8_t retry_attempt_ = 0;
  /// The PSN of the last implied NAK: the responses behind a gap imply it once, not each of them.
  std::optional<Psn> implied_nak_at_;
  Time ack_deadline_ = time_never;
  Time rnr_deadline_ = time_never;
};

}  // namespace verbena::ib
