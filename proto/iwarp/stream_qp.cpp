// Commands, states and ends. stream_qp_receive.cpp has what comes in, stream_qp_transmit.cpp what
// goes out, stream_qp_extensions.cpp both of RFC 7306.
#include "proto/iwarp/stream_qp.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace verbena::iwarp {
namespace {

/// RFC 7306 has nothing like a SEND with immediate data: an Immediate message takes a receive of
/// its own.
bool is_supported(const SendWr& wr, bool extensions) {
  switch (wr.opcode) {
    case WrOpcode::rdma_write:
    case WrOpcode::send:
    case WrOpcode::send_with_inv:
    case WrOpcode::local_inv:
    case WrOpcode::bind_mw:
      return true;
    case WrOpcode::rdma_read:
      return !wr.inline_data;
    case WrOpcode::rdma_write_with_imm:
      return extensions;
    case WrOpcode::atomic_cmp_and_swp:
    case WrOpcode::atomic_fetch_and_add:
      return extensions && !wr.inline_data;
    default:
      return false;
  }
}

bool wants_answer(WrOpcode opcode) {
  return opcode == WrOpcode::rdma_read || opcode == WrOpcode::atomic_cmp_and_swp ||
         opcode == WrOpcode::atomic_fetch_and_add;
}

}  // namespace

std::string_view name_of(StreamState state) noexcept {
  switch (state) {
    case StreamState::idle:
      return "idle";
    case StreamState::rts:
      return "rts";
    case StreamState::closing:
      return "closing";
    case StreamState::terminate:
      return "terminate";
    case StreamState::error:
      return "error";
  }
  return "unknown";
}

StreamQp::StreamQp(Qpn qpn, const Limits& limits, bool signal_all, RecvSource receives,
                   CompletionSink& send_completions, CompletionSink& recv_completions)
    : qpn_(qpn),
      limits_(limits),
      signal_all_(signal_all),
      send_completions_(send_completions),
      recv_completions_(recv_completions),
      send_queue_(limits.send),
      receives_(std::move(receives)),
      writer_(FpduFormat{}),
      answers_(std::make_unique<Answer[]>(std::max<std::uint16_t>(limits.ird_max, 1))) {}

void StreamQp::activate(const StreamConnection& connection) {
  VERBENA_CHECK(state_ == StreamState::idle && send_queue_.empty());
  VERBENA_CHECK(connection.agreement.depths.ird <= limits_.ird_max);
  connection_ = connection;
  receiver_.emplace(connection.agreement.receive_format);
  writer_ = FpduWriter(connection.agreement.send_format);
  forget_stream();
  state_ = StreamState::rts;
  rtr_is_due_ = connection.is_initiator && connection.agreement.rtr.has_value();
}

/// Nothing of a stream is left that was.
void StreamQp::forget_stream() {
  sent_terminate_.reset();
  received_terminate_.reset();
  failed_with_.reset();
  cursor_ = unanswered_ = send_queue_.head();
  sent_bytes_ = response_bytes_ = received_bytes_ = written_bytes_ = 0;
  send_msn_ = request_msn_ = atomic_response_msn_ = 1;
  expected_send_msn_ = expected_request_msn_ = expected_atomic_response_msn_ = 1;
  immediate_is_due_ = rtr_is_due_ = rtr_read_in_flight_ = has_received_ = false;
  write_has_ended_ = true;
  in_flight_ = answers_count_ = 0;
  inbound_send_.reset();
  terminate_ulpdu_bytes_ = 0;
}

void StreamQp::reset() {
  state_ = StreamState::idle;
  while (!send_queue_.empty()) {
    send_queue_.pop();
  }
  receives_.clear();
  forget_stream();
}

Result<void, PostError> StreamQp::post_send(StreamEnv& env, const SendWr& wr) {
  if (state_ == StreamState::idle || state_ == StreamState::closing) {
    return std::unexpected(PostError::wrong_state);
  }
  // Where no READ was agreed on, none can ever be sent.
  if (!is_supported(wr, limits_.extensions) ||
      (wants_answer(wr.opcode) && connection_.agreement.depths.ord == 0)) {
    return std::unexpected(PostError::opcode_unsupported);
  }
  const auto pushed = send_queue_.push(wr);
  if (pushed && state_ != StreamState::rts) {
    flush(env);
  }
  return pushed;
}

Result<void, PostError> StreamQp::post_recv(StreamEnv& env, const RecvWr& wr) {
  const auto pushed = receives_.push(wr);
  if (pushed && (state_ == StreamState::terminate || state_ == StreamState::error)) {
    flush(env);
  }
  return pushed;
}

void StreamQp::disconnect(StreamEnv& env) {
  if (state_ == StreamState::idle) {
    state_ = StreamState::error;
    flush(env);
  } else if (state_ == StreamState::rts) {
    state_ = StreamState::closing;
  }
}

void StreamQp::fail(StreamEnv& env) {
  if (state_ != StreamState::terminate) {
    state_ = StreamState::error;
  }
  flush(env);
}

void StreamQp::on_stream_end(StreamEnv& env) {
  if (state_ != StreamState::rts && state_ != StreamState::closing) {
    return;
  }
  // In the middle of a message, or owing us answers, nobody closes in order.
  if (!receiver_->is_between_fpdus() || inbound_send_ || in_flight_ > 0) {
    fail(env);
    return;
  }
  state_ = StreamState::closing;
}

void StreamQp::on_stream_closed(StreamEnv& env) {
  const bool is_in_order = state_ == StreamState::closing && !has_work();
  state_ = is_in_order ? StreamState::idle : StreamState::error;
  terminate_ulpdu_bytes_ = 0;
  flush(env);
}

bool StreamQp::wants_close() const {
  switch (state_) {
    case StreamState::closing:
      return !has_work();
    case StreamState::terminate:
      return terminate_ulpdu_bytes_ == 0;
    case StreamState::error:
      return true;
    case StreamState::idle:
    case StreamState::rts:
      break;
  }
  return false;
}

/// Something was asked for, by us or by the peer, that isn't done.
bool StreamQp::has_work() const {
  return !send_queue_.empty() || answers_count_ > 0 || rtr_is_due_ || rtr_read_in_flight_;
}

/// Completes what is done, oldest first: what was sent, and READs and atomics that were answered.
void StreamQp::complete_requests(StreamEnv& env) {
  while (send_queue_.head() < cursor_) {
    const SendWqe& wqe = send_queue_.at(send_queue_.head());
    if (wqe.wants_data() && send_queue_.head() >= unanswered_) {
      return;
    }
    complete_request(env, WcStatus::success);
  }
}

void StreamQp::complete_request(StreamEnv& env, WcStatus status) {
  const SendWqe& wqe = send_queue_.at(send_queue_.head());
  const bool failed = status != WcStatus::success;
  if (failed) {
    env.counters.add(Counter::req_cqe_error);
    if (status == WcStatus::wr_flush_err) {
      env.counters.add(Counter::req_cqe_flush_error);
    }
  } else if (wqe.opcode == WrOpcode::send || wqe.opcode == WrOpcode::send_with_inv) {
    env.counters.add(Counter::rdma_sends);
  }
  if (failed || wqe.signaled || signal_all_) {
    Completion completion;
    completion.wr_id = wqe.wr_id;
    completion.time = env.now;
    completion.byte_len = failed ? 0 : wqe.length;
    completion.qpn = qpn_;
    completion.status = status;
    completion.opcode = completion_opcode(wqe.opcode);
    send_completions_.complete(completion, failed);
  }
  send_queue_.pop();
}

/// Ends the oldest receive. `completion` has what the message says.
void StreamQp::complete_receive(StreamEnv& env, WcStatus status, Completion completion,
                                bool solicited) {
  const bool failed = status != WcStatus::success;
  if (failed) {
    env.counters.add(Counter::resp_cqe_error);
    if (status == WcStatus::wr_flush_err) {
      env.counters.add(Counter::resp_cqe_flush_error);
    }
  }
  completion.wr_id = receives_.front().wr_id;
  completion.time = env.now;
  completion.qpn = qpn_;
  completion.status = status;
  completion.opcode = completion.with_imm ? WcOpcode::recv_rdma_with_imm : WcOpcode::recv;
  receives_.pop();
  recv_completions_.complete(completion, solicited || failed);
}

/// What is done has completed before. What was sent behind something that failed is flushed too:
/// the peer may not have looked at it.
void StreamQp::flush(StreamEnv& env) {
  while (!send_queue_.empty()) {
    complete_request(env, WcStatus::wr_flush_err);
  }
  cursor_ = unanswered_ = send_queue_.head();
  sent_bytes_ = 0;
  in_flight_ = answers_count_ = 0;
  immediate_is_due_ = rtr_is_due_ = rtr_read_in_flight_ = false;
  inbound_send_.reset();
  // What waits in a shared queue belongs to the others.
  while (!receives_.owns_none()) {
    complete_receive(env, WcStatus::wr_flush_err, {}, false);
  }
}

/// The peer did what it must not: it is told, and the stream ends.
void StreamQp::terminate(StreamEnv& env, TerminateReason reason, ByteView segment) {
  state_ = StreamState::terminate;
  sent_terminate_ = reason;
  env.counters.add(Counter::sent_terminates);
  terminate_ulpdu_bytes_ = emit_terminate(terminate_ulpdu_, reason, segment);
  flush(env);
}

/// The request at the cursor can't be carried out, for a reason of our own. Those before it that
/// are done complete, the others are flushed; the peer is told that it isn't its fault.
void StreamQp::fail_request(StreamEnv& env, WcStatus status) {
  complete_requests(env);
  while (send_queue_.head() < cursor_) {
    complete_request(env, WcStatus::wr_flush_err);
  }
  complete_request(env, status);
  failed_with_ = status;
  cursor_ = send_queue_.head();
  terminate(env, TerminateReason::rdmap_local_catastrophic, {});
}

}  // namespace verbena::iwarp
