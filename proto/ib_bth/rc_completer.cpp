// The way back: responses become completions. Read first: IBTA vol 1, 9.7.5.2 and 9.9.2.4.
//
// A response with PSN p acknowledges all SENDs and WRITEs before p. A READ or atomic before p whose
// data has not come means that a response was lost: that is an implied NAK at the READ's next PSN.

#include <algorithm>
#include <utility>

#include "proto/ib_bth/rc_requester.h"
#include "proto/ib_bth/send_completion.h"
#include "proto/sge_copy.h"

namespace verbena::ib {

namespace {

WcStatus status_of(NakCode code) {
  switch (code) {
    case NakCode::invalid_request:
      return WcStatus::rem_inv_req_err;
    case NakCode::remote_access_error:
      return WcStatus::rem_access_err;
    case NakCode::remote_operational_error:
      return WcStatus::rem_op_err;
    case NakCode::psn_sequence_error:
    case NakCode::invalid_rd_request:
      break;
  }
  return WcStatus::bad_resp_err;
}

std::optional<Counter> counter_of(NakCode code) {
  switch (code) {
    case NakCode::invalid_request:
      return Counter::req_remote_invalid_request;
    case NakCode::remote_access_error:
      return Counter::req_remote_access_errors;
    default:
      return std::nullopt;
  }
}

RxVerdict stale(Psn expected, Psn got) {
  return RxVerdict::drop(RxCheck::psn, Counter::rx_drop_stale_response, expected.value(),
                         got.value());
}

}  // namespace

Time RcRequester::next_timeout() const { return std::min(ack_deadline_, rnr_deadline_); }

bool RcRequester::is_in_flight(Psn psn) const {
  return distance_from_una(psn) < distance_from_una(sent_);
}

void RcRequester::arm_ack_timer(TransportEnv& env) {
  ack_deadline_ = config_.ack_timeout ? env.now + *config_.ack_timeout : time_never;
}

RcRequester::Outcome RcRequester::on_response(TransportEnv& env, const PacketView& packet) {
  if (!active_ || !is_in_flight(packet.psn())) {
    return {.verdict = stale(una_, packet.psn())};
  }
  Outcome outcome = dispatch_response(env, packet);
  if (outcome.failure == QpFailure::none) {
    // A request that can't be sent may have become the oldest.
    outcome.failure = check_local_failure(env);
  }
  return outcome;
}

RcRequester::Outcome RcRequester::dispatch_response(TransportEnv& env, const PacketView& packet) {
  switch (packet.info().operation) {
    case Operation::acknowledge:
      return on_acknowledge(env, packet);
    case Operation::read_response:
      return on_read_response(env, packet);
    case Operation::atomic_acknowledge:
      // Most responders refuse an atomic by an Acknowledge, some by an ATOMIC Acknowledge.
      return packet.aeth().syndrome().kind() == AethKind::ack ? on_atomic_acknowledge(env, packet)
                                                              : on_acknowledge(env, packet);
    default:
      break;
  }
  return {.verdict = RxVerdict::drop(RxCheck::response, Counter::rx_drop_stale_response)};
}

RcRequester::Outcome RcRequester::on_acknowledge(TransportEnv& env, const PacketView& packet) {
  switch (packet.aeth().syndrome().kind()) {
    case AethKind::ack:
      if (!acknowledge_before(env, packet.psn().next())) {
        return imply_nak(env, packet.psn());
      }
      return {};
    case AethKind::rnr_nak:
      return on_rnr_nak(env, packet);
    case AethKind::nak:
      return on_nak(env, packet);
    case AethKind::reserved:
      break;
  }
  return {.verdict = RxVerdict::drop(RxCheck::response, Counter::rx_drop_stale_response, 0,
                                     packet.aeth().syndrome().to_byte())};
}

RcRequester::Outcome RcRequester::on_nak(TransportEnv& env, const PacketView& packet) {
  // A NAK acknowledges everything before its PSN (IBTA vol 1, 9.7.5.1.2), for "PSN sequence error"
  // too.
  if (!acknowledge_before(env, packet.psn())) {
    return imply_nak(env, packet.psn());
  }
  const NakCode code = packet.aeth().syndrome().nak_code();
  if (code == NakCode::psn_sequence_error) {
    env.counters.add(Counter::packet_seq_err);
    env.counters.add(Counter::rcvd_seq_err);
    return {.verdict = {}, .failure = retry(env, PacketNote::Cause::nak_sequence)};
  }
  if (const auto counter = counter_of(code)) {
    env.counters.add(*counter);
  }
  return {.verdict = {}, .failure = fail_head(env, status_of(code))};
}

RcRequester::Outcome RcRequester::on_rnr_nak(TransportEnv& env, const PacketView& packet) {
  if (!acknowledge_before(env, packet.psn())) {
    return imply_nak(env, packet.psn());
  }
  if (rnr_deadline_ != time_never) {
    // Nothing was sent since the last one: it is that one again.
    return {.verdict = stale(una_, packet.psn())};
  }
  env.counters.add(Counter::rnr_nak_retry_err);
  env.counters.add(Counter::rcvd_rnr_err);
  if (config_.rnr_retry != rnr_retry_infinite) {
    if (rnr_retries_left_ == 0) {
      env.counters.add(Counter::retry_rnr_exceeded_err);
      return {.verdict = {}, .failure = fail_head(env, WcStatus::rnr_retry_exc_err)};
    }
    --rnr_retries_left_;
  }
  go_back(env, PacketNote::Cause::rnr);
  rnr_deadline_ = env.now + rnr_timer(packet.aeth().syndrome().code());
  ack_deadline_ = time_never;
  return {};
}

RcRequester::Outcome RcRequester::on_read_response(TransportEnv& env, const PacketView& packet) {
  if (!acknowledge_before(env, packet.psn())) {
    return imply_nak(env, packet.psn());
  }
  const std::uint64_t index = queue_.head();
  const SendWqe& wqe = queue_.at(index);
  const auto at = static_cast<std::uint32_t>(packet.psn() - wqe.first_psn);
  const std::uint64_t offset = std::uint64_t{at} * connection_.mtu_bytes;
  const bool last = at + 1 == wqe.psn_count;
  // The response to an ATOMIC WRITE or FLUSH is that of a READ of no bytes (annex A19.4).
  const std::uint64_t expected_bytes =
      wqe.is_read() ? std::min<std::uint64_t>(wqe.length - offset, connection_.mtu_bytes) : 0;
  // First or middle is not told apart: a READ that was asked again in the middle begins with First,
  // and an answer to the first asking may still be under way.
  if (wqe.is_atomic() || packet.info().ends_message() != last ||
      packet.payload().size() != expected_bytes) {
    return {.verdict = {}, .failure = fail_head(env, WcStatus::bad_resp_err)};
  }
  if (!scatter(env.memory, connection_.pd, queue_.sges(index), offset, packet.payload())) {
    return {.verdict = {}, .failure = fail_head(env, WcStatus::loc_prot_err)};
  }
  una_ = una_.next();
  if (last) {
    complete_head(env, WcStatus::success);
  }
  on_progress(env);
  return {};
}

RcRequester::Outcome RcRequester::on_atomic_acknowledge(TransportEnv& env,
                                                        const PacketView& packet) {
  if (!acknowledge_before(env, packet.psn())) {
    return imply_nak(env, packet.psn());
  }
  const std::uint64_t index = queue_.head();
  if (!queue_.at(index).is_atomic()) {
    return {.verdict = {}, .failure = fail_head(env, WcStatus::bad_resp_err)};
  }
  // The wire is big-endian, memory holds the value as this host reads it (IBTA vol 1, 9.4.5).
  const std::uint64_t original = packet.atomic_ack_eth().original();
  if (!scatter(env.memory, connection_.pd, queue_.sges(index), 0, bytes_of(original))) {
    return {.verdict = {}, .failure = fail_head(env, WcStatus::loc_prot_err)};
  }
  una_ = una_.next();
  complete_head(env, WcStatus::success);
  on_progress(env);
  return {};
}

/// Everything before `psn` is acknowledged. False, and as far as it goes, if a READ or atomic
/// before `psn` has not got its data.
bool RcRequester::acknowledge_before(TransportEnv& env, Psn psn) {
  bool progress = false;
  bool gap = false;
  while (una_ != psn) {
    SendWqe& wqe = queue_.at(queue_.head());
    if (wqe.wants_response()) {
      gap = true;
      break;
    }
    progress = true;
    if (distance_from_una(psn) < distance_from_una(wqe.end_psn())) {
      una_ = psn;
      break;
    }
    una_ = wqe.end_psn();
    complete_head(env, WcStatus::success);
  }
  if (progress) {
    on_progress(env);
  }
  return !gap;
}

RcRequester::Outcome RcRequester::imply_nak(TransportEnv& env, Psn got) {
  if (implied_nak_at_ == una_) {
    return {.verdict = stale(una_, got)};
  }
  implied_nak_at_ = una_;
  const Psn missing = una_;
  return {.verdict = RxVerdict::drop(RxCheck::psn, Counter::implied_nak_seq_err, missing.value(),
                                     got.value()),
          .failure = retry(env, PacketNote::Cause::implied_nak)};
}

/// Goes back to the oldest PSN in flight, or gives up (IBTA vol 1, 9.9.2.4.1).
QpFailure RcRequester::retry(TransportEnv& env, PacketNote::Cause cause) {
  if (retries_left_ > 0) {
    --retries_left_;
  } else if (std::exchange(has_alternate_path_, false)) {
    path_exhausted_ = true;
    retries_left_ = config_.retry_cnt;
  } else {
    env.counters.add(Counter::retry_exceeded_err);
    return fail_head(env, WcStatus::retry_exc_err);
  }
  go_back(env, cause);
  // It runs from when the packet is sent again: while a queue pair waits for its turn, nothing can
  // be acknowledged.
  ack_deadline_ = time_never;
  return QpFailure::none;
}

QpFailure RcRequester::on_timer(TransportEnv& env) {
  if (rnr_deadline_ <= env.now) {
    rnr_deadline_ = time_never;
    arm_ack_timer(env);
  }
  if (ack_deadline_ > env.now) {
    return QpFailure::none;
  }
  ack_deadline_ = time_never;
  if (queue_.empty()) {
    return QpFailure::none;
  }
  env.counters.add(Counter::local_ack_timeout_err);
  implied_nak_at_.reset();
  return retry(env, PacketNote::Cause::timeout);
}

void RcRequester::renew_ack_timer(TransportEnv& env) {
  env.counters.add(Counter::ack_timer_renewed);
  arm_ack_timer(env);
}

/// The responder goes on: the retry counters begin anew (IBTA vol 1, 9.7.5.2.7).
void RcRequester::on_progress(TransportEnv& env) {
  complete_local_operations(env);
  retries_left_ = config_.retry_cnt;
  rnr_retries_left_ = config_.rnr_retry;
  retry_attempt_ = 0;
  rnr_deadline_ = time_never;
  // A cursor that had gone back may be behind what is now acknowledged.
  if (cursor_.index < queue_.head()) {
    cursor_ = {.index = queue_.head(), .packet = 0};
  }
  if (cursor_.index == queue_.head()) {
    cursor_.packet = std::max(cursor_.packet, acknowledged_packets_of_head());
  }
  if (una_ == sent_) {
    ack_deadline_ = time_never;
  } else {
    arm_ack_timer(env);
  }
}

QpFailure RcRequester::check_local_failure(TransportEnv& env) {
  if (!local_failure_ || local_failure_->index != queue_.head()) {
    return QpFailure::none;
  }
  return fail_head(env, local_failure_->status);
}

QpFailure RcRequester::fail_head(TransportEnv& env, WcStatus status) {
  complete_head(env, status);
  env.ended_with = status;
  active_ = false;
  ack_deadline_ = rnr_deadline_ = time_never;
  return QpFailure::told_by_completion;
}

void RcRequester::complete_head(TransportEnv& env, WcStatus status) {
  const SendWqe& wqe = queue_.at(queue_.head());
  if (wqe.started && wqe.wants_response()) {
    --rd_atomics_in_flight_;
  }
  complete_oldest(queue_, env, status, qpn_, signal_all_, completions_);
}

/// What the NIC did itself completes when all before it has.
void RcRequester::complete_local_operations(TransportEnv& env) {
  while (!is_drained() && queue_.at(queue_.head()).psn_count == 0) {
    complete_head(env, WcStatus::success);
  }
}

void RcRequester::flush(TransportEnv& env) {
  active_ = false;
  local_failure_.reset();
  ack_deadline_ = rnr_deadline_ = time_never;
  while (!queue_.empty()) {
    complete_head(env, WcStatus::wr_flush_err);
  }
  cursor_ = {.index = queue_.head(), .packet = 0};
}

}  // namespace verbena::ib
