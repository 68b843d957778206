#include "proto/ib_bth/rc_requester.h"

#include <algorithm>

#include "base/check.h"
#include "proto/ib_bth/data_packet.h"
#include "proto/ib_bth/emit.h"
#include "proto/sge_copy.h"

namespace verbena::ib {

namespace {

/// PSNs in the number space; a distance is smaller.
constexpr std::uint32_t psn_space = 1U << 24;
/// Requests in flight never span more (IBTA vol 1, 9.7.1).
constexpr std::uint32_t psn_window_max = 1U << 23;

/// Where the answer to a READ or atomic goes must be writable; all else is only read.
Access local_access_of(const SendWqe& wqe) {
  return wqe.wants_data() ? Access::local_write : Access::none;
}

/// Of a request that carries no data.
Opcode opcode_without_data(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::rdma_read:
      return Opcode::rc_read_request;
    case WrOpcode::atomic_cmp_and_swp:
      return Opcode::rc_compare_swap;
    case WrOpcode::flush:
      return Opcode::rc_flush;
    default:
      return Opcode::rc_fetch_add;
  }
}

/// The FETH of a FLUSH (annex A19.4.1).
Feth feth_of(const Flush& flush) {
  return {(flush.global_visibility ? Feth::global_visibility : 0) |
              (flush.persistence ? Feth::persistence : 0),
          flush.whole ? Feth::whole_region : Feth::range};
}

/// Attempts are shown in captures only; their number stops there.
constexpr std::uint8_t retry_attempt_max = 255;

/// An atomic works on eight bytes (IBTA vol 1, 9.4.5; annex A19.4 for ATOMIC WRITE).
constexpr std::uint32_t atomic_bytes = 8;

}  // namespace

RcRequester::RcRequester(Qpn qpn, const SendQueueLimits& limits, bool signal_all,
                         CompletionSink& completions)
    : qpn_(qpn), queue_(limits), signal_all_(signal_all), completions_(completions) {}

void RcRequester::activate(const Connection& connection, const RcRequesterConfig& config) {
  connection_ = connection;
  config_ = config;
  active_ = true;
  una_ = sent_ = next_psn_ = config.first_psn;
  retries_left_ = config.retry_cnt;
  rnr_retries_left_ = config.rnr_retry;
}

void RcRequester::reconfigure(const RcRequesterConfig& config) {
  config_ = config;
  retries_left_ = config.retry_cnt;
  rnr_retries_left_ = config.rnr_retry;
}

void RcRequester::reset() {
  while (!queue_.empty()) {
    queue_.pop();
  }
  cursor_ = {.index = queue_.head(), .packet = 0};
  active_ = draining_ = has_alternate_path_ = path_exhausted_ = false;
  rd_atomics_in_flight_ = 0;
  local_failure_.reset();
  implied_nak_at_.reset();
  retry_cause_ = PacketNote::Cause::none;
  retry_attempt_ = 0;
  ack_deadline_ = rnr_deadline_ = time_never;
}

Result<void, PostError> RcRequester::post(const SendWr& wr) {
  const bool wants_data = wr.opcode == WrOpcode::rdma_read ||
                          wr.opcode == WrOpcode::atomic_cmp_and_swp ||
                          wr.opcode == WrOpcode::atomic_fetch_and_add;
  const bool is_rc_only = wr.opcode == WrOpcode::atomic_write || wr.opcode == WrOpcode::flush;
  const bool wants_response = wants_data || is_rc_only;
  // Data can't come back into inline data, and without a responder's resource it can't come at all.
  // Only reliable connections know ATOMIC WRITE and FLUSH.
  if ((wants_data && wr.inline_data) || (wants_response && config_.max_rd_atomic == 0) ||
      (is_rc_only && connection_.service != Service::rc)) {
    return std::unexpected(PostError::opcode_unsupported);
  }
  return queue_.push(wr);
}

bool RcRequester::is_drained() const { return queue_.empty() || !queue_.at(queue_.head()).started; }

bool RcRequester::window_is_full() const {
  return distance_from_una(sent_) >= inflight_packets_max;
}

/// Whether a request that was not begun yet may begin.
bool RcRequester::may_start(const SendWqe& wqe) const {
  if (draining_) {
    return false;
  }
  // IBTA vol 1, 10.8.3.3: a fenced request waits for the READs and atomics before it.
  if (wqe.fence && rd_atomics_in_flight_ > 0) {
    return false;
  }
  if (!wqe.wants_response()) {
    return true;
  }
  if (rd_atomics_in_flight_ >= config_.max_rd_atomic) {
    return false;
  }
  const std::uint32_t in_flight = distance_from_una(next_psn_);
  return in_flight == 0 ||
         in_flight + packets_of(wqe.length, connection_.mtu_bytes) <= psn_window_max;
}

/// Gives a request its PSNs. False if its own memory doesn't permit it: it will fail.
bool RcRequester::start(TransportEnv& env, std::uint64_t index) {
  SendWqe& wqe = queue_.at(index);
  if (is_local(wqe.opcode)) {
    return execute_local(env, index);
  }
  const bool is_eight_bytes = wqe.is_atomic() || wqe.opcode == WrOpcode::atomic_write;
  const bool length_fits =
      is_eight_bytes ? wqe.length == atomic_bytes : !wqe.is_flush() || wqe.length == 0;
  if (!length_fits ||
      !sges_permit(env.memory, connection_.pd, queue_.sges(index), local_access_of(wqe))) {
    local_failure_ = {.index = index,
                      .status = length_fits ? WcStatus::loc_prot_err : WcStatus::loc_len_err};
    return false;
  }
  wqe.started = true;
  wqe.first_psn = next_psn_;
  wqe.psn_count = packets_of(wqe.length, connection_.mtu_bytes);
  next_psn_ = wqe.end_psn();
  if (wqe.wants_response()) {
    ++rd_atomics_in_flight_;
  }
  return true;
}

/// Binds or invalidates a window. The order is that of the queue: what was sent before went under
/// the old key, what follows goes under the new one (IBTA vol 1, 10.8.3.3).
bool RcRequester::execute_local(TransportEnv& env, std::uint64_t index) {
  SendWqe& wqe = queue_.at(index);
  const MemoryUser user{.pd = connection_.pd, .qpn = qpn_};
  const bool is_bind = wqe.opcode == WrOpcode::bind_mw;
  const auto done = is_bind ? env.memory.bind(user, wqe.binding)
                            : env.memory.invalidate(user, wqe.invalidate_rkey);
  if (!done) {
    local_failure_ = {.index = index,
                      .status = is_bind ? WcStatus::mw_bind_err : WcStatus::loc_qp_op_err};
    return false;
  }
  wqe.started = true;
  wqe.first_psn = next_psn_;
  wqe.psn_count = 0;
  return true;
}

bool RcRequester::wants_transmit() const {
  const std::uint64_t end = local_failure_ ? local_failure_->index : queue_.tail();
  return active_ && cursor_.index < end && rnr_deadline_ == time_never;
}

RcRequester::Transmitted RcRequester::poll_transmit(TransportEnv& env, PacketSink& sink,
                                                    std::uint32_t& packets_max) {
  while (wants_transmit()) {
    const SendWqe& wqe = queue_.at(cursor_.index);
    if (!wqe.started && (!may_start(wqe) || window_is_full())) {
      break;
    }
    if (!wqe.started && !start(env, cursor_.index)) {
      break;
    }
    if (wqe.psn_count == 0) {
      ++cursor_.index;
      complete_local_operations(env);
      continue;
    }
    const Psn psn = cursor_psn(wqe);
    if (psn == sent_ && window_is_full()) {
      break;
    }
    if (packets_max == 0) {
      return {.result = TransmitResult::more};
    }
    if (!emit(env, sink)) {
      if (local_failure_) {
        break;
      }
      // A way that stays blocked is a dead one: the time runs although nothing could be sent.
      if (ack_deadline_ == time_never) {
        arm_ack_timer(env);
      }
      return {.result = TransmitResult::blocked};
    }
    --packets_max;
  }
  return {.result = TransmitResult::idle, .failure = check_local_failure(env)};
}

/// Sends what the cursor stands at. False: no room, or the memory doesn't hold any more.
bool RcRequester::emit(TransportEnv& env, PacketSink& sink) {
  const SendWqe& wqe = queue_.at(cursor_.index);
  const bool is_again = cursor_psn(wqe) != sent_;
  const bool has_data = !wqe.wants_data() && !wqe.is_flush();
  if (has_data ? !emit_data(env, sink, wqe) : !emit_without_data(sink, wqe)) {
    return false;
  }
  if (is_again) {
    env.counters.add(Counter::retransmitted_pkts);
  }
  advance_cursor(env, wqe, wqe.is_read() ? wqe.psn_count - cursor_.packet : 1);
  return true;
}

/// One packet of a SEND or WRITE, or an ATOMIC WRITE.
bool RcRequester::emit_data(TransportEnv& env, PacketSink& sink, const SendWqe& wqe) {
  const DataSlice slice = slice_of(wqe.length, cursor_.packet, connection_.mtu_bytes);
  PacketFields fields =
      connection_.fields_of(data_opcode(connection_.service, wqe.opcode, slice), cursor_psn(wqe));
  add_data_fields(fields, wqe, slice);
  // The last packet of a message asks always: who waits for a completion must not wait for the
  // next message.
  fields.ack_request = slice.last || (cursor_.packet + 1) % ack_request_interval == 0;

  const MutableBytes packet = sink.reserve(transport_size(fields.opcode, slice.bytes));
  if (packet.empty()) {
    return false;
  }
  if (!write_data_packet(env.memory, connection_.pd, queue_, cursor_.index, slice, fields,
                         packet)) {
    local_failure_ = {.index = cursor_.index, .status = WcStatus::loc_prot_err};
    return false;
  }
  sink.commit(note_of(fields.psn));
  return true;
}

/// A READ request, from the cursor's packet of the response on, an atomic or a FLUSH.
bool RcRequester::emit_without_data(PacketSink& sink, const SendWqe& wqe) {
  const bool is_swap = wqe.opcode == WrOpcode::atomic_cmp_and_swp;
  const Opcode opcode = opcode_without_data(wqe.opcode);
  PacketFields fields =
      connection_.fields_of(with_service(connection_.service, opcode), cursor_psn(wqe));
  fields.xrceth = XrcEth(to_value(wqe.remote_srqn));
  if (wqe.is_read()) {
    const std::uint32_t offset = cursor_.packet * connection_.mtu_bytes;
    fields.reth = Reth(wqe.remote_addr + offset, wqe.rkey, wqe.length - offset);
  } else if (wqe.is_flush()) {
    fields.feth = feth_of(wqe.flush);
    fields.reth = Reth(wqe.remote_addr, wqe.rkey, wqe.flush.length);
  } else {
    fields.atomic_eth = AtomicEth(wqe.remote_addr, wqe.rkey, is_swap ? wqe.swap : wqe.compare_add,
                                  is_swap ? wqe.compare_add : 0);
  }
  const MutableBytes packet = sink.reserve(transport_size(fields.opcode, 0));
  if (packet.empty()) {
    return false;
  }
  emit_headers(packet, fields, 0);
  sink.commit(note_of(fields.psn));
  return true;
}

PacketNote RcRequester::note_of(Psn psn) const {
  if (distance_from_una(psn) >= distance_from_una(sent_)) {
    return {};
  }
  return {
      .kind = PacketNote::Kind::retransmission, .cause = retry_cause_, .attempt = retry_attempt_};
}

void RcRequester::advance_cursor(TransportEnv& env, const SendWqe& wqe, std::uint32_t packets) {
  const bool is_first_in_flight = una_ == sent_;
  cursor_.packet += packets;
  const Psn reached = cursor_psn(wqe);
  if (distance_from_una(reached) > distance_from_una(sent_)) {
    sent_ = reached;
  }
  if (cursor_.packet == wqe.psn_count) {
    ++cursor_.index;
    cursor_.packet = 0;
  }
  if (is_first_in_flight || ack_deadline_ == time_never) {
    arm_ack_timer(env);
  }
}

/// Puts the cursor back to the oldest PSN that is not acknowledged.
void RcRequester::go_back(TransportEnv& env, PacketNote::Cause cause) {
  cursor_ = {.index = queue_.head(), .packet = acknowledged_packets_of_head()};
  retry_cause_ = cause;
  retry_attempt_ = std::min<std::uint8_t>(retry_attempt_, retry_attempt_max - 1);
  ++retry_attempt_;
  env.counters.add(Counter::completer_retry_err);
}

/// Packets of the oldest request that are acknowledged already.
std::uint32_t RcRequester::acknowledged_packets_of_head() const {
  if (is_drained()) {
    return 0;
  }
  return static_cast<std::uint32_t>(una_ - queue_.at(queue_.head()).first_psn);
}

std::uint32_t RcRequester::distance_from_una(Psn psn) const {
  return (psn.value() - una_.value()) & (psn_space - 1);
}

}  // namespace verbena::ib
