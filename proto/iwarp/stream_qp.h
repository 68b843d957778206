// A queue pair over a byte stream: RDMAP over DDP over MPA, from work requests to completions. Read
// first: RFC 5040, 5 (operations, ordering and completion) and 6 (termination), RFC 5041, 5 to 7;
// states after "RDMA Protocol Verbs" (draft-hilland-rddp-verbs), 6.2.
//
//            activate()             disconnect(), or the peer ends with nothing outstanding
//   ┌──────┐ ──────────► ┌───────────┐ ─────────────────────────────────────► ┌─────────┐
//   │ idle │             │    rts    │                                        │ closing │
//   └──────┘ ◄─┐         └───────────┘                                        └─────────┘
//              │           │       │ TERMINATE sent or received    stream closed │     │
//              │           │       ▼                                             │     │ work
//              │           │  ┌───────────┐ stream closed  ┌───────┐             │     │ left
//              │           │  │ terminate │ ─────────────► │ error │ ◄───────────┼─────┘ over
//              │           │  └───────────┘                └───────┘             │
//              │           │  stream lost, fail()              ▲                 │
//              │           └───────────────────────────────────┘                 │
//              └─────────────────────────────────────────────────────────────────┘
//
// The stream delivers in order and once. So there are no acknowledgements: a SEND or WRITE is done
// when the stream took its last byte (RFC 5040, 5.5), a READ when its response is in memory. All
// work of the send queue completes in the order of posting; a SEND behind a READ waits for it.
// What a peer must not do is told by a TERMINATE, which ends the stream.
//
// Between two that both have RFC 7306 (Limits::extensions) there are atomics, which share the queue
// and the depths of READs, and WRITE with immediate data, which is a WRITE and an Immediate message
// behind it. stream_qp_extensions.cpp has them.
//
// The owner moves bytes: it feeds on_stream() and asks poll_transmit(), and it closes the stream
// when wants_close() says so.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "proto/counters.h"
#include "proto/iwarp/fpdu_receiver.h"
#include "proto/iwarp/fpdu_writer.h"
#include "proto/iwarp/negotiation.h"
#include "proto/iwarp/segment.h"
#include "proto/iwarp/stream_sink.h"
#include "proto/iwarp/terminate.h"
#include "proto/memory_access.h"
#include "proto/recv_queue.h"
#include "proto/send_queue.h"
#include "proto/work.h"

namespace verbena::iwarp {

/// What the queue pair may touch while it handles one event: lent for the call.
struct StreamEnv {
  Time now;
  MemoryAccess& memory;
  Counters& counters;
};

enum class StreamState : std::uint8_t { idle, rts, closing, terminate, error };
[[nodiscard]] std::string_view name_of(StreamState state) noexcept;

/// The shortest ULPDU that segments are cut to: with a short TCP segment, FPDUs span several (RFC
/// 5044, 5.1).
inline constexpr std::size_t ulpdu_bytes_min = 128;

/// What start frames and consumer settled before the stream carries FPDUs.
struct StreamConnection {
  MpaAgreement agreement;
  bool is_initiator = false;
  PdId pd{};
  /// What the peer may do to our memory at all; none of it goes beyond the rights of the memory.
  Access access = Access::remote_write | Access::remote_read;
  /// The TCP segment's payload (EMSS): FPDUs are cut so that one fits it.
  std::size_t segment_bytes = 1460;
};

enum class StreamTransmitted : std::uint8_t {
  idle,     ///< Nothing to send now.
  more,     ///< The budget is used up.
  blocked,  ///< The sink had no room.
};

class StreamQp {
 public:
  struct Limits {
    SendQueueLimits send;
    /// READs and atomics that peers may have in flight, whatever a connection negotiates.
    std::uint16_t ird_max = 16;
    /// Both ends have RFC 7306. Nothing on the wire tells so: the consumers have to know.
    bool extensions = false;
  };

  StreamQp(Qpn qpn, const Limits& limits, bool signal_all, RecvSource receives,
           CompletionSink& send_completions, CompletionSink& recv_completions);

  [[nodiscard]] const SendQueueLimits& limits() const { return send_queue_.limits(); }
  [[nodiscard]] const RecvSource& receives() const { return receives_; }
  /// Send requests that still fit.
  [[nodiscard]] std::size_t room() const { return send_queue_.room(); }
  /// Every request of the send queue has completed.
  [[nodiscard]] bool is_drained() const { return send_queue_.empty(); }

  // Commands.
  /// From idle. agreement.depths.ird is at most limits.ird_max.
  void activate(const StreamConnection& connection);
  [[nodiscard]] Result<void, PostError> post_send(StreamEnv& env, const SendWr& wr);
  [[nodiscard]] Result<void, PostError> post_recv(StreamEnv& env, const RecvWr& wr);
  /// Nothing more is posted; what was posted is sent, then the stream closes.
  void disconnect(StreamEnv& env);
  /// To the error state at once, as when the consumer says so. Everything is flushed. A TERMINATE
  /// that waits to be sent is still sent.
  void fail(StreamEnv& env);
  /// Back to idle; nothing completes.
  void reset();

  // Events in.
  /// Bytes of the peer. They are used up, whatever becomes of them.
  void on_stream(StreamEnv& env, ByteView bytes);
  /// The peer sends no more (FIN).
  void on_stream_end(StreamEnv& env);
  /// The stream is closed in both directions, as wanted, or lost.
  void on_stream_closed(StreamEnv& env);

  // Effects out.
  /// Up to `fpdus_max` FPDUs, which it counts down.
  [[nodiscard]] StreamTransmitted poll_transmit(StreamEnv& env, StreamSink& sink,
                                                std::uint32_t& fpdus_max);
  [[nodiscard]] bool wants_transmit() const;
  /// All that is to be sent was sent: the owner closes its side of the stream.
  [[nodiscard]] bool wants_close() const;

  [[nodiscard]] StreamState state() const { return state_; }
  /// Why the stream was ended, and by whom.
  [[nodiscard]] std::optional<TerminateReason> sent_terminate() const { return sent_terminate_; }
  [[nodiscard]] std::optional<TerminateCode> received_terminate() const {
    return received_terminate_;
  }
  /// How the request ended for which the stream was given up: one of ours that can't be carried
  /// out, or a READ or an atomic that the peer refused.
  [[nodiscard]] std::optional<WcStatus> failed_with() const { return failed_with_; }

 private:
  /// A READ of the peer that is being answered.
  struct ReadAnswer {
    Rkey sink_stag{};
    Va sink_offset{};
    Rkey source_stag{};
    Va source_offset{};
    std::uint32_t size_bytes = 0;
    std::uint32_t sent_bytes = 0;
  };
  /// An atomic of the peer: to be carried out, or done and to be answered.
  struct AtomicAnswer {
    AtomicRequestHeader request;
    bool is_done = false;
    /// The value before, once it is done.
    std::uint64_t original = 0;
  };
  using Answer = std::variant<ReadAnswer, AtomicAnswer>;
  /// What a READ request calls the memory that waits for the response.
  struct ReadSink {
    std::uint32_t stag = 0;
    std::uint64_t offset = 0;
  };
  enum class Emitted : std::uint8_t { sent, done_here, no_room, failed };
  using Checked = std::optional<TerminateReason>;

  // Receiving (stream_qp_receive.cpp).
  void on_ulpdu(StreamEnv& env, ByteView ulpdu);
  [[nodiscard]] Checked execute(StreamEnv& env, const SegmentView& segment);
  [[nodiscard]] Checked on_send(StreamEnv& env, const SegmentView& segment);
  [[nodiscard]] Checked check_send(StreamEnv& env, const SegmentView& segment);
  [[nodiscard]] Checked end_send(StreamEnv& env, const SegmentView& segment);
  [[nodiscard]] Checked on_write(StreamEnv& env, const SegmentView& segment);
  [[nodiscard]] Checked check_queued_request(const SegmentView& segment) const;
  [[nodiscard]] Checked on_read_request(StreamEnv& env, const SegmentView& segment);
  [[nodiscard]] Checked on_read_response(StreamEnv& env, const SegmentView& segment);
  void end_answered(StreamEnv& env);
  [[nodiscard]] std::optional<std::uint64_t> blamed_request(const SegmentView& segment) const;
  void on_terminate(StreamEnv& env, const SegmentView& segment);

  // RFC 7306, in both directions (stream_qp_extensions.cpp).
  [[nodiscard]] Checked execute_extension(StreamEnv& env, const SegmentView& segment);
  [[nodiscard]] Checked on_immediate(StreamEnv& env, const SegmentView& segment);
  [[nodiscard]] Checked on_atomic_request(StreamEnv& env, const SegmentView& segment);
  [[nodiscard]] Checked on_atomic_response(StreamEnv& env, const SegmentView& segment);
  [[nodiscard]] bool has_read_to_answer() const;
  [[nodiscard]] Result<void, AccessFault> carry_out(StreamEnv& env, AtomicAnswer& atomic);
  [[nodiscard]] std::uint32_t oldest_request_msn() const { return request_msn_ - in_flight_; }
  [[nodiscard]] Emitted emit_immediate(StreamEnv& env, StreamSink& sink, const SendWqe& wqe);
  [[nodiscard]] Emitted emit_atomic_request(StreamEnv& env, StreamSink& sink, const SendWqe& wqe);
  [[nodiscard]] Emitted emit_atomic_response(StreamEnv& env, StreamSink& sink,
                                             AtomicAnswer& atomic);

  // Sending (stream_qp_transmit.cpp).
  [[nodiscard]] static ReadSink read_sink(std::span<const Sge> sges);
  [[nodiscard]] bool may_send() const;
  [[nodiscard]] bool may_start(const SendWqe& wqe) const;
  [[nodiscard]] bool has_request_to_send() const;
  [[nodiscard]] bool has_local_work() const;
  [[nodiscard]] Emitted emit_next(StreamEnv& env, StreamSink& sink);
  [[nodiscard]] Emitted emit_terminate_message(StreamSink& sink);
  [[nodiscard]] Emitted emit_rtr(StreamSink& sink);
  [[nodiscard]] Emitted emit_request(StreamEnv& env, StreamSink& sink);
  [[nodiscard]] Emitted execute_local(StreamEnv& env, const SendWqe& wqe);
  [[nodiscard]] Emitted emit_data(StreamEnv& env, StreamSink& sink, const SendWqe& wqe);
  [[nodiscard]] Emitted emit_read_request(StreamEnv& env, StreamSink& sink, const SendWqe& wqe);
  [[nodiscard]] Emitted emit_answer(StreamEnv& env, StreamSink& sink);
  [[nodiscard]] Emitted emit_read_response(StreamEnv& env, StreamSink& sink, ReadAnswer& read);
  void end_answer();
  void note_in_flight();
  [[nodiscard]] std::size_t payload_bytes_max(std::size_t header_bytes) const;
  void end_request(StreamEnv& env);

  // Ends.
  void complete_requests(StreamEnv& env);
  void complete_request(StreamEnv& env, WcStatus status);
  [[nodiscard]] MemoryUser memory_user() const { return {.pd = connection_.pd, .qpn = qpn_}; }
  void complete_receive(StreamEnv& env, WcStatus status, Completion completion, bool solicited);
  void flush(StreamEnv& env);
  void forget_stream();
  void terminate(StreamEnv& env, TerminateReason reason, ByteView segment);
  void fail_request(StreamEnv& env, WcStatus status);
  [[nodiscard]] bool has_work() const;

  Qpn qpn_;
  Limits limits_;
  bool signal_all_;
  CompletionSink& send_completions_;
  CompletionSink& recv_completions_;
  SendQueue send_queue_;
  RecvSource receives_;

  StreamState state_ = StreamState::idle;
  StreamConnection connection_;
  std::optional<FpduReceiver> receiver_;
  FpduWriter writer_;
  std::optional<TerminateReason> sent_terminate_;
  std::optional<TerminateCode> received_terminate_;
  std::optional<WcStatus> failed_with_;

  // Sending. `cursor_` is the request that is sent next, `sent_bytes_` how much of it was sent.
  std::uint64_t cursor_ = 0;
  std::uint32_t sent_bytes_ = 0;
  std::uint32_t send_msn_ = 1;
  /// Of READs and atomics.
  std::uint32_t request_msn_ = 1;
  std::uint32_t atomic_response_msn_ = 1;
  /// The WRITE at the cursor was sent, its immediate data wasn't.
  bool immediate_is_due_ = false;
  bool rtr_is_due_ = false;
  /// Answers and requests take turns, FPDU by FPDU.
  bool is_turn_of_answers_ = false;
  std::array<std::byte, terminate_ulpdu_bytes_max> terminate_ulpdu_{};
  /// 0: none is to be sent.
  std::size_t terminate_ulpdu_bytes_ = 0;

  // Our READs and atomics in flight. `unanswered_` is the oldest one, or the end of those sent.
  std::uint32_t in_flight_ = 0;
  std::uint64_t unanswered_ = 0;
  std::uint32_t response_bytes_ = 0;
  /// A READ that was sent as RTR: its response belongs to no request.
  bool rtr_read_in_flight_ = false;

  // Receiving.
  bool has_received_ = false;
  std::uint32_t expected_send_msn_ = 1;
  std::uint32_t expected_request_msn_ = 1;
  std::uint32_t expected_atomic_response_msn_ = 1;
  /// The SEND that is coming in, and how much of it came.
  std::optional<RdmapOpcode> inbound_send_;
  std::uint32_t received_bytes_ = 0;
  /// What the last WRITE of the peer brought so far, and whether that was all of it.
  std::uint32_t written_bytes_ = 0;
  bool write_has_ended_ = true;

  // The peer's READs and atomics that are being answered: a ring.
  std::unique_ptr<Answer[]> answers_;
  std::uint32_t answers_first_ = 0;
  std::uint32_t answers_count_ = 0;
};

}  // namespace verbena::iwarp
