// The responder of a reliable connection: executes request packets and answers them. Read first:
// IBTA vol 1, 9.7.4 (packet sequence), 9.7.5.1 (acknowledging), 9.7.7 to 9.7.9, 9.9.3 (errors of
// the responder).
//
// A request packet goes through named checks in the order of the specification; the first that
// fails decides (rc_responder.cpp):
//
//     PSN ─ opcode sequence ─ opcode allowed ─ resources ─ length ─ R_Key and range ─ execute
//      │          └───────────┴──────┬───────┴─────────────┴──────────────┘     │
//      │ before: duplicate           ▼                                           ▼
//      │ after: NAK, once     NAK, QP in error (resources: also RNR NAK)   complete, acknowledge
//
// Messages of several packets: a First or Only opens one, a Last or Only closes it.
//
//     idle ──SEND First──► in a SEND ──Last──► idle      idle ──WRITE First──► in a WRITE ──Last──►
//     idle
//
// Answers leave in the order of their PSNs: READ responses and atomic results from a ring of
// max_dest_rd_atomic entries, which keeps them for replay, then one ACK or NAK that covers all that
// came since (rc_responder_transmit.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/ids.h"
#include "base/result.h"
#include "proto/ib_bth/aeth.h"
#include "proto/ib_bth/packet.h"
#include "proto/ib_bth/rc_requester.h"
#include "proto/ib_bth/recv_side.h"
#include "proto/ib_bth/transport_env.h"
#include "proto/ib_bth/xrc_domain.h"
#include "proto/packet_sink.h"
#include "proto/recv_queue.h"
#include "proto/verdict.h"
#include "proto/work.h"

namespace verbena::ib {

struct RcResponderConfig {
  Psn first_psn;
  /// READs, atomics and FLUSHes answered at a time and kept for replay.
  std::uint8_t max_dest_rd_atomic = 1;
  /// The timer code of our RNR NAKs.
  std::uint8_t min_rnr_timer = 0;
  /// What peers may do through this QP: remote_write, remote_read, remote_atomic, flush_global,
  /// flush_persistent.
  Access access = Access::none;
  /// Of an XRC target; null otherwise.
  const XrcDomain* xrc_domain = nullptr;
};

class RcResponder {
 public:
  /// `completions` must outlive the responder.
  RcResponder(Qpn qpn, RecvSource receives, CompletionSink& completions);

  // Getters.
  [[nodiscard]] const RecvSource& queue() const { return receive_.queue(); }
  [[nodiscard]] Psn expected_psn() const { return expected_psn_; }
  /// Whether poll_transmit() would find something to do.
  [[nodiscard]] bool wants_transmit() const { return replies_waiting_ > 0 || ack_.has_value(); }

  // Commands.
  /// INIT to RTR: from now on requests are executed.
  void activate(const Connection& connection, const RcResponderConfig& config);
  /// Changes what later transitions may change: all but the PSN.
  void reconfigure(const RcResponderConfig& config);
  [[nodiscard]] Result<void, PostError> post(const RecvWr& wr) { return receive_.post(wr); }
  /// The QP is in error: completes everything posted with wr_flush_err. Answers that wait still go.
  void flush(TransportEnv& env);
  /// Reset: forgets everything; nothing completes.
  void reset();
  /// XRC: the queue is about to go; a message for it that is under way will be refused.
  void forget_queue(const RecvQueue& queue);

  // Events in.
  struct Outcome {
    RxVerdict verdict;
    QpFailure failure = QpFailure::none;
  };
  [[nodiscard]] Outcome on_request(TransportEnv& env, const PacketView& packet);

  // Effects out.
  struct Transmitted {
    TransmitResult result = TransmitResult::idle;
    QpFailure failure = QpFailure::none;
  };
  /// Sends up to `packets_max` packets and takes what it sent off `packets_max`.
  [[nodiscard]] Transmitted poll_transmit(TransportEnv& env, PacketSink& sink,
                                          std::uint32_t& packets_max);

 private:
  /// Why a check refused a packet, and what is told to whom.
  struct Refusal {
    RxCheck check = RxCheck::none;
    Syndrome syndrome;
    /// How the receive request that the message has, or would have taken, completes.
    WcStatus recv_status = WcStatus::rem_inv_req_err;
    std::optional<Counter> counter = std::nullopt;
    std::uint64_t expected = 0;
    std::uint64_t got = 0;
  };
  using Checked = std::optional<Refusal>;

  /// The message that is coming in.
  enum class Inbound : std::uint8_t { idle, send, write };

  /// A READ, atomic or FLUSH: what is being answered, and what a duplicate would be answered with.
  struct Reply {
    Operation operation = Operation::read_request;
    bool waiting = false;
    Psn first_psn;
    std::uint32_t psn_count = 0;
    Msn msn;
    PdId pd{};
    Rkey rkey{};
    Va va{};
    std::uint32_t length = 0;
    std::uint64_t atomic_original = 0;
    // What remains to be sent of the current answering.
    std::uint32_t next_packet = 0;
    std::uint64_t bytes_left = 0;
    bool begins = false;
    bool is_replay = false;
  };

  struct PendingAck {
    Psn psn;
    Syndrome syndrome;
    Msn msn;
    bool is_replay = false;
  };

  // The pipeline (rc_responder.cpp).
  [[nodiscard]] Checked select_target(const PacketView& packet);
  [[nodiscard]] Checked check_opcode_sequence(const PacketView& packet) const;
  [[nodiscard]] Checked check_opcode_allowed(const PacketView& packet) const;
  [[nodiscard]] Checked check_resources(const PacketView& packet) const;
  [[nodiscard]] Checked check_length(const PacketView& packet) const;
  [[nodiscard]] Checked check_key(TransportEnv& env, const PacketView& packet) const;
  [[nodiscard]] Checked check_all(TransportEnv& env, const PacketView& packet) const;
  [[nodiscard]] Checked execute(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] Checked execute_send(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] Checked execute_write(TransportEnv& env, const PacketView& packet);
  void execute_read(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] Checked execute_atomic(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] Checked execute_atomic_write(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] Checked execute_flush(TransportEnv& env, const PacketView& packet);
  void answer_without_data(const PacketView& packet);
  void end_message(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] bool takes_receive(const PacketView& packet) const;

  // Answering (rc_responder_answer.cpp).
  [[nodiscard]] Outcome on_duplicate(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] bool replay(const PacketView& packet);
  [[nodiscard]] Outcome on_gap(TransportEnv& env, const PacketView& packet);
  [[nodiscard]] Outcome refuse(TransportEnv& env, const PacketView& packet, const Refusal& refusal);

  void acknowledge(TransportEnv& env, const PendingAck& ack);
  [[nodiscard]] bool has_reply_slot() const;
  void resize_replies(std::uint32_t capacity);
  Reply& add_reply();
  void complete_receive(TransportEnv& env, WcStatus status, Completion completion, bool solicited);
  [[nodiscard]] MemoryUser memory_user() const {
    return {.pd = connection_.pd, .qpn = receive_.qpn()};
  }

  // Sending answers (rc_responder_transmit.cpp).
  [[nodiscard]] Reply* first_waiting();
  enum class Emitted : std::uint8_t { sent, no_room, no_access };
  [[nodiscard]] Emitted emit_read_response(TransportEnv& env, PacketSink& sink, Reply& reply);
  [[nodiscard]] bool emit_atomic_acknowledge(PacketSink& sink, Reply& reply);
  [[nodiscard]] bool emit_acknowledge(PacketSink& sink);
  void refuse_reply(TransportEnv& env, const Reply& reply);
  void end_reply(Reply& reply);

  RecvSide receive_;
  Connection connection_;
  RcResponderConfig config_;
  bool active_ = false;

  Psn expected_psn_;
  Msn msn_;
  /// A NAK or RNR NAK for expected_psn_ is out: no other until that PSN comes (9.7.5.1.3).
  bool nak_sent_ = false;

  Inbound inbound_ = Inbound::idle;
  /// Payload of the message so far.
  std::uint64_t received_bytes_ = 0;
  /// What the RETH of the WRITE that is coming in says.
  Reth write_;

  /// A ring; replies_next_ is the slot to fill next, so the oldest one.
  std::unique_ptr<Reply[]> replies_;
  std::uint32_t replies_capacity_ = 0;
  std::uint32_t replies_next_ = 0;
  std::uint32_t replies_waiting_ = 0;
  std::optional<PendingAck> ack_;
};

}  // namespace verbena::ib
