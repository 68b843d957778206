// One end of a TCP connection, small and whole: opening, closing and reset, retransmission, fast
// retransmit, window scaling, probing of closed windows. Sans I/O: segments, commands and time come
// in, segments go out. It carries iWARP where no operating system does: in the simulator, and on
// links (stack.h). Read first: RFC 9293, 3.3 (state machine), 3.10.7 (what becomes of a segment);
// then RFC 6298 (retransmission_timeout.h), RFC 5681 and 6582 (congestion.h).
//
//   ┌────────┐ connect() ▷SYN   ┌──────────┐ SYN,ACK ▷ACK
//   │ closed │ ───────────────▶ │ syn_sent │ ────────────────────┐
//   └────────┘                  └──────────┘                     │
//       │ listen()                   │ SYN ▷SYN,ACK              │
//       ▼                            ▼                           ▼
//   ┌────────┐ SYN ▷SYN,ACK  ┌──────────────┐      ACK     ┌─────────────┐
//   │ listen │ ────────────▶ │ syn_received │ ───────────▶ │ established │
//   └────────┘               └──────────────┘              └─────────────┘
//                                                close() ▷FIN │       │ FIN ▷ACK
//               ┌─────────────────────────────────────────────┘       ▼
//               ▼                                              ┌────────────┐
//        ┌────────────┐ FIN ▷ACK ┌─────────┐                   │ close_wait │
//        │ fin_wait_1 │ ───────▶ │ closing │                   └────────────┘
//        └────────────┘          └─────────┘                          │ close() ▷FIN
//    ACK of FIN │                     │ ACK of FIN                    ▼
//               ▼                     ▼                          ┌──────────┐
//        ┌────────────┐ FIN ▷ACK ┌───────────┐                   │ last_ack │
//        │ fin_wait_2 │ ───────▶ │ time_wait │ ─2 MSL▶ closed ◀─ └──────────┘ ACK of FIN
//        └────────────┘          └───────────┘
//
// ▷ marks what is sent. A reset, or an end to retries, leads to closed from everywhere; end() tells
// which it was.
//
// Not here, because nothing needs it: urgent data, selective acknowledgements, timestamps. Small
// segments never wait for others (no Nagle algorithm), as MPA wants it (RFC 5044, 5.1).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/time.h"
#include "proto/inet/tcp/byte_ring.h"
#include "proto/inet/tcp/congestion.h"
#include "proto/inet/tcp/early_ranges.h"
#include "proto/inet/tcp/options.h"
#include "proto/inet/tcp/retransmission_timeout.h"
#include "proto/inet/tcp/segment_sink.h"
#include "proto/inet/tcp/sequence.h"
#include "proto/inet/tcp/unit_ends.h"
#include "proto/inet/tcp_header.h"

namespace verbena::inet {

enum class TcpState : std::uint8_t {
  closed,
  listen,
  syn_sent,
  syn_received,
  established,
  fin_wait_1,
  fin_wait_2,
  close_wait,
  closing,
  last_ack,
  time_wait,
};
[[nodiscard]] std::string_view name_of(TcpState state) noexcept;

/// Why a connection is closed.
enum class TcpEnd : std::uint8_t {
  none,       ///< It isn't, or both sides had ended.
  refused,    ///< The peer answered the SYN with a reset.
  reset,      ///< The peer reset it later.
  timed_out,  ///< No answer, after all retries.
  aborted,    ///< We reset it.
};

struct TcpSettings {
  std::uint16_t local_port = 0;
  std::uint16_t peer_port = 0;
  TcpSeq initial_sequence;
  /// What a segment may carry here, either way (RFC 9293, 3.7.1).
  std::uint16_t mss = 1460;
  /// At most 1 GiB each, which is what windows can tell (RFC 7323, 2.3).
  std::uint32_t send_buffer_bytes = 256 * 1024;
  std::uint32_t receive_buffer_bytes = 256 * 1024;
  Duration retransmission_timeout_min = RetransmissionTimeout::min_default;
  /// RFC 9293, 3.8.6.3: less than 0.5 s.
  Duration acknowledgement_delay = std::chrono::milliseconds(40);
  /// RFC 9293, 3.4.2 proposes two minutes; half a minute is what systems take.
  Duration segment_lifetime_max = std::chrono::seconds(30);
  /// Timeouts in a row before the connection is given up: R2 of RFC 9293, 3.8.3.
  unsigned retries_max = 15;
  unsigned syn_retries_max = 6;
};

/// What became of a segment.
enum class TcpVerdict : std::uint8_t {
  accepted,
  duplicate,       ///< All of it was here before.
  early,           ///< Kept: something before it is missing.
  not_kept,        ///< The same, but it can't be kept.
  outside_window,  ///< Of another time or life; answered by an ACK.
  challenged,      ///< A SYN or RST that may be forged (RFC 5961); answered by an ACK.
  ended,           ///< A reset that counts.
  /// Belongs to no connection: the owner answers by a reset (reset_for()).
  unknown,
  ignored,
};

enum class TcpTransmitted : std::uint8_t {
  idle,     ///< Nothing to send now.
  more,     ///< The budget is used up.
  blocked,  ///< The sink had no room.
};

struct TcpStatistics {
  std::uint64_t segments_sent = 0;
  std::uint64_t segments_received = 0;
  std::uint64_t retransmitted = 0;
  std::uint64_t fast_retransmits = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t duplicate_acks = 0;
  std::uint64_t early_segments = 0;
  std::uint64_t challenges = 0;
  std::uint64_t window_probes = 0;
  /// Out of place, and not answered because another one just was.
  std::uint64_t unanswered = 0;
};

class TcpConnection {
 public:
  explicit TcpConnection(const TcpSettings& settings);

  // Commands.
  /// From closed.
  void connect();
  /// From closed: waits for a SYN to the local port, by whomever.
  void listen();
  /// Takes as much as there is room for; returns how much. Nothing after close().
  std::size_t write(ByteView bytes);
  /// All of it, or nothing and false. It begins a segment, and lies whole in one if one can hold it
  /// (UnitEnds); a window that is smaller cuts it all the same.
  [[nodiscard]] bool write_unit(ByteView bytes);
  /// Nothing more is written: what was is sent, then FIN. Reading goes on.
  void close(Time now);
  /// Ends at once, by a reset if the peer knows of us.
  void abort();

  // What has come, in order.
  [[nodiscard]] ByteView readable() const { return received_.front(); }
  /// Takes the first bytes of readable() away.
  void consume(std::size_t bytes);
  /// The peer sends no more, and everything it sent was read.
  [[nodiscard]] bool peer_has_ended() const { return fin_received_ && received_.size() == 0; }

  // Events in.
  /// A segment to our port from the peer, its checksum found right.
  TcpVerdict on_segment(Time now, const TcpSegment& segment);
  void on_timer(Time now);

  // Effects out.
  /// Up to `segments_max` segments, which it counts down. Their checksum is still 0.
  [[nodiscard]] TcpTransmitted poll_transmit(Time now, TcpSegmentSink& sink,
                                             std::uint32_t& segments_max);

  [[nodiscard]] Time next_timeout() const;

  [[nodiscard]] TcpState state() const { return state_; }
  [[nodiscard]] TcpEnd end() const { return end_; }
  [[nodiscard]] std::size_t write_room() const { return sending_.room(); }
  /// What was written and not yet acknowledged.
  [[nodiscard]] std::size_t unacknowledged_bytes() const { return sending_.size(); }
  /// What was written and not sent since the last timeout.
  [[nodiscard]] bool has_unsent_bytes() const { return data_end().is_after(next_); }
  /// abort() was called, and the reset hasn't left yet.
  [[nodiscard]] bool has_reset_to_send() const { return reset_is_due_; }
  /// Behind all that ever was sent.
  [[nodiscard]] TcpSeq sent_until() const { return max_; }
  /// The sequence number of the byte that comes next.
  [[nodiscard]] TcpSeq expected() const { return rcv_next_; }
  /// What segments carry, as soon as both sides have said what they take.
  [[nodiscard]] std::uint32_t mss() const { return mss_; }
  [[nodiscard]] std::uint32_t congestion_window() const { return congestion_.window_bytes(); }
  [[nodiscard]] Duration retransmission_timeout() const { return timeout_.value(); }
  [[nodiscard]] const TcpStatistics& statistics() const { return statistics_; }

 private:
  /// A segment to be sent.
  struct Plan {
    TcpSeq sequence;
    std::uint32_t payload_bytes = 0;
    std::uint8_t flags = TcpHeader::flag_ack;
    TcpResend why = TcpResend::none;
  };
  enum class Emitted : std::uint8_t { sent, nothing, no_room };

  // Receiving (connection_receive.cpp).
  TcpVerdict on_segment_in_listen(const TcpSegment& segment);
  TcpVerdict on_segment_in_syn_sent(Time now, const TcpSegment& segment);
  TcpVerdict on_synchronized(Time now, const TcpSegment& segment);
  void take_syn(const TcpSegment& segment);
  [[nodiscard]] bool is_acceptable(TcpSeq sequence, std::uint32_t length) const;
  TcpVerdict on_unacceptable(Time now, const TcpSegment& segment);
  TcpVerdict on_reset(Time now, const TcpSegment& segment);
  TcpVerdict challenge(Time now);
  void answer_stranger(Time now);
  [[nodiscard]] std::optional<TcpVerdict> on_acknowledgement(Time now, const TcpSegment& segment);
  void on_new_acknowledgement(Time now, TcpSeq acknowledged);
  void on_duplicate_acknowledgement(const TcpSegment& segment);
  void update_window(const TcpHeader& header);
  TcpVerdict take_payload(Time now, const TcpSegment& segment);
  void note_fin(const TcpSegment& segment);
  void take_fin(Time now);
  void acknowledge_later(Time now);

  // Sending (connection_transmit.cpp).
  [[nodiscard]] Emitted emit_next(Time now, TcpSegmentSink& sink);
  [[nodiscard]] std::optional<Plan> next_plan(Time now);
  [[nodiscard]] std::optional<Plan> plan_syn() const;
  [[nodiscard]] Plan plan_data(TcpSeq sequence, std::uint32_t bytes_max) const;
  [[nodiscard]] Plan plan_probe() const;
  [[nodiscard]] std::optional<Plan> plan_new_data(Time now);
  [[nodiscard]] bool write_segment(TcpSegmentSink& sink, const Plan& plan);
  void note_sent(Time now, const Plan& plan);
  [[nodiscard]] std::uint16_t window_field(bool is_syn);
  [[nodiscard]] TcpSeq sequence_without_data() const;
  void on_retransmission_timeout(Time now);
  void update_retransmission_timer(Time now);

  // Ends.
  void finish(TcpEnd end);
  void enter_time_wait(Time now);

  [[nodiscard]] bool is_synchronized() const { return state_ >= TcpState::syn_received; }
  /// Behind the last byte that was written: where the FIN goes.
  [[nodiscard]] TcpSeq data_end() const {
    return sending_from_ + static_cast<std::uint32_t>(sending_.size());
  }
  [[nodiscard]] bool fin_is_acknowledged() const { return closing_ && una_.is_after(data_end()); }
  /// What is written, with the FIN, and has not been sent since the last timeout.
  [[nodiscard]] std::uint32_t unsent() const;
  [[nodiscard]] std::uint32_t receive_window() const { return bytes_between(rcv_next_, rcv_edge_); }

  TcpSettings settings_;
  TcpState state_ = TcpState::closed;
  TcpEnd end_ = TcpEnd::none;
  std::uint32_t mss_;
  TcpStatistics statistics_;

  // Sending: SND.UNA and SND.NXT of RFC 9293, 3.3.1; `max_` is the end of all that ever was sent.
  ByteRing sending_;
  UnitEnds units_;
  /// Sequence number of the front of sending_.
  TcpSeq sending_from_;
  TcpSeq una_;
  TcpSeq next_;
  TcpSeq max_;
  /// SND.WND, the largest it ever was, and the segment that it is from (SND.WL1, SND.WL2).
  std::uint32_t window_ = 0;
  std::uint32_t window_max_ = 0;
  TcpSeq window_sequence_;
  TcpSeq window_acknowledgement_;
  std::uint8_t peer_window_shift_ = 0;
  /// close() was called: a FIN ends what is sent.
  bool closing_ = false;
  bool retransmit_first_ = false;
  /// To be sent, and sent beyond a closed window.
  bool probe_is_due_ = false;
  bool probe_is_out_ = false;
  bool reset_is_due_ = false;
  CongestionControl congestion_;
  RetransmissionTimeout timeout_;
  Time retransmit_at_ = time_never;
  Time last_sent_{};
  unsigned retries_ = 0;
  bool syn_was_lost_ = false;
  struct Timing {
    TcpSeq end;
    Time start;
  };
  /// The round trip that is being measured.
  std::optional<Timing> timing_;

  // Receiving: RCV.NXT, and the right edge of the window that the peer knows.
  ByteRing received_;
  EarlyRanges early_;
  TcpSeq rcv_next_;
  TcpSeq rcv_edge_;
  /// What the peer knows by our last segment.
  TcpSeq acknowledged_;
  std::uint8_t own_window_shift_;
  bool scales_windows_ = false;
  std::optional<TcpSeq> fin_at_;
  bool fin_received_ = false;
  bool ack_is_due_ = false;
  Time acknowledge_at_ = time_never;
  Time time_wait_until_ = time_never;
  Time answers_strangers_from_ = Time::min();
};

/// The reset that answers a segment for which there is no connection (RFC 9293, 3.10.7.1); nothing
/// answers a reset. The checksum is still 0.
[[nodiscard]] std::optional<TcpHeader> reset_for(const TcpSegment& segment);

}  // namespace verbena::inet
