#include "proto/ib_bth/rc_responder.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/check.h"
#include "proto/ib_bth/data_packet.h"
#include "proto/ib_bth/rc_operations.h"
#include "proto/sge_copy.h"

namespace verbena::ib {

namespace {

constexpr std::uint64_t atomic_bytes = 8;

constexpr Syndrome invalid_request = Syndrome::nak(NakCode::invalid_request);
constexpr Syndrome access_error = Syndrome::nak(NakCode::remote_access_error);
constexpr Syndrome operational_error = Syndrome::nak(NakCode::remote_operational_error);

Flush flush_of(const PacketView& packet) {
  const unsigned types = packet.feth().placement_type();
  return {.global_visibility = (types & Feth::global_visibility) != 0,
          .persistence = (types & Feth::persistence) != 0,
          .whole = packet.feth().selectivity() == Feth::whole_region,
          .length = packet.reth().length_bytes()};
}

/// Whether a FLUSH asks for something, and for nothing that is reserved.
bool is_known(const Feth& feth) {
  const unsigned types = feth.placement_type();
  return types != 0 && (types & ~(Feth::global_visibility | Feth::persistence)) == 0 &&
         feth.selectivity() <= Feth::whole_region;
}

/// The rights that a request needs, of the QP and of the memory; none for a SEND.
Access access_needed(const PacketView& packet) {
  switch (packet.info().operation) {
    case Operation::flush:
      return access_needed(flush_of(packet));
    case Operation::write:
    case Operation::atomic_write:
      return Access::remote_write;
    case Operation::read_request:
      return Access::remote_read;
    case Operation::compare_swap:
    case Operation::fetch_add:
      return Access::remote_atomic;
    default:
      return Access::none;
  }
}

/// Compare-and-swap or fetch-and-add on memory that the application's own atomics may touch at the
/// same time. Returns the value before.
std::uint64_t apply_atomic(std::byte* host, const PacketView& packet) {
  const AtomicEth eth = packet.atomic_eth();
  const std::atomic_ref target(*reinterpret_cast<std::uint64_t*>(host));
  if (packet.info().operation == Operation::fetch_add) {
    return target.fetch_add(eth.swap_or_add());
  }
  std::uint64_t original = eth.compare();
  target.compare_exchange_strong(original, eth.swap_or_add());
  return original;
}

}  // namespace

RcResponder::RcResponder(Qpn qpn, RecvSource receives, CompletionSink& completions)
    : receive_(qpn, std::move(receives), completions) {}

void RcResponder::activate(const Connection& connection, const RcResponderConfig& config) {
  connection_ = connection;
  config_ = config;
  expected_psn_ = config.first_psn;
  replies_capacity_ = config.max_dest_rd_atomic;
  replies_ = std::make_unique<Reply[]>(replies_capacity_);
  active_ = true;
}

void RcResponder::reconfigure(const RcResponderConfig& config) {
  config_.min_rnr_timer = config.min_rnr_timer;
  config_.access = config.access;
  if (config.max_dest_rd_atomic != replies_capacity_) {
    resize_replies(config.max_dest_rd_atomic);
  }
}

void RcResponder::reset() {
  receive_.reset();
  active_ = nak_sent_ = false;
  msn_ = Msn();
  inbound_ = Inbound::idle;
  replies_capacity_ = replies_next_ = replies_waiting_ = 0;
  ack_.reset();
}

void RcResponder::forget_queue(const RecvQueue& queue) {
  if (receive_.forget(queue)) {
    inbound_ = Inbound::idle;
  }
}

void RcResponder::flush(TransportEnv& env) {
  active_ = false;
  inbound_ = Inbound::idle;
  while (!queue().owns_none()) {
    complete_receive(env, WcStatus::wr_flush_err, {.opcode = WcOpcode::recv}, true);
  }
}

RcResponder::Outcome RcResponder::on_request(TransportEnv& env, const PacketView& packet) {
  if (!active_) {
    return {.verdict = RxVerdict::drop(RxCheck::qp_state, Counter::rx_drop_qp_state)};
  }
  const std::int32_t distance = packet.psn() - expected_psn_;
  if (distance < 0) {
    return on_duplicate(env, packet);
  }
  if (distance > 0) {
    return on_gap(env, packet);
  }
  nak_sent_ = false;
  Checked refusal = select_target(packet);
  if (!refusal) {
    refusal = check_all(env, packet);
  }
  if (!refusal) {
    refusal = execute(env, packet);
  }
  if (refusal) {
    return refuse(env, packet, *refusal);
  }
  return {};
}

/// Annex A14: each message names its shared receive queue, those without a receive request, too.
RcResponder::Checked RcResponder::select_target(const PacketView& packet) {
  if (config_.xrc_domain == nullptr || inbound_ != Inbound::idle) {
    return std::nullopt;
  }
  const std::uint32_t number = packet.xrceth().srq_number();
  const auto target = config_.xrc_domain->find(Srqn{number});
  if (!target) {
    return Refusal{.check = RxCheck::resources, .syndrome = invalid_request, .got = number};
  }
  receive_.share(*target->queue, *target->completions);
  connection_.pd = target->pd;
  return std::nullopt;
}

RcResponder::Checked RcResponder::check_all(TransportEnv& env, const PacketView& packet) const {
  if (auto refusal = check_opcode_sequence(packet)) {
    return refusal;
  }
  if (auto refusal = check_opcode_allowed(packet)) {
    return refusal;
  }
  if (auto refusal = check_resources(packet)) {
    return refusal;
  }
  if (auto refusal = check_length(packet)) {
    return refusal;
  }
  return check_key(env, packet);
}

/// IBTA vol 1, 9.7.4.1.3: inside a message only its own Middle and Last, outside only First and
/// Only.
RcResponder::Checked RcResponder::check_opcode_sequence(const PacketView& packet) const {
  const OpcodeInfo& info = packet.info();
  const bool fits = inbound_ == Inbound::idle
                        ? info.starts_message()
                        : !info.starts_message() &&
                              (info.operation == Operation::send) == (inbound_ == Inbound::send);
  if (fits) {
    return std::nullopt;
  }
  return Refusal{.check = RxCheck::opcode_sequence,
                 .syndrome = invalid_request,
                 .got = static_cast<std::uint64_t>(packet.opcode())};
}

/// IBTA vol 1, 9.7.4.1.4 and 9.7.4.1.5: what the QP offers, and what it was told to permit.
RcResponder::Checked RcResponder::check_opcode_allowed(const PacketView& packet) const {
  switch (packet.info().operation) {
    case Operation::send:
      return std::nullopt;
    case Operation::flush:
      if (!is_known(packet.feth())) {
        break;
      }
      [[fallthrough]];
    case Operation::write:
    case Operation::read_request:
    case Operation::compare_swap:
    case Operation::fetch_add:
    case Operation::atomic_write:
      if (allows(config_.access, access_needed(packet))) {
        return std::nullopt;
      }
      break;
    default:
      break;
  }
  return Refusal{.check = RxCheck::opcode_allowed,
                 .syndrome = invalid_request,
                 .counter = std::nullopt,
                 .got = static_cast<std::uint64_t>(packet.opcode())};
}

/// Whether a packet needs a receive request that its message does not have yet.
bool RcResponder::takes_receive(const PacketView& packet) const {
  const OpcodeInfo& info = packet.info();
  return (info.operation == Operation::send && info.starts_message()) ||
         (info.operation == Operation::write && info.has_immediate());
}

/// IBTA vol 1, 9.7.4.1.6: a receive request, or a place to keep a READ or atomic for replay.
RcResponder::Checked RcResponder::check_resources(const PacketView& packet) const {
  if (takes_receive(packet) && queue().empty()) {
    return Refusal{.check = RxCheck::resources,
                   .syndrome = Syndrome::rnr_nak(config_.min_rnr_timer & Syndrome::code_max),
                   .counter = Counter::out_of_buffer};
  }
  if (keeps_reply(packet.info().operation) && !has_reply_slot()) {
    return Refusal{.check = RxCheck::resources,
                   .syndrome = invalid_request,
                   .counter = std::nullopt,
                   .expected = replies_capacity_,
                   .got = replies_capacity_ + std::uint64_t{1}};
  }
  return std::nullopt;
}

/// IBTA vol 1, 9.7.4.1.7: the payload fits the opcode's position and the path MTU, and the message
/// fits what its RETH or its receive request says.
RcResponder::Checked RcResponder::check_length(const PacketView& packet) const {
  const OpcodeInfo& info = packet.info();
  const std::uint64_t payload = packet.payload().size();
  const auto refused = [](std::uint64_t expected, std::uint64_t got,
                          WcStatus status = WcStatus::rem_inv_req_err,
                          std::optional<Counter> counter = std::nullopt) {
    return Refusal{.check = RxCheck::length,
                   .syndrome = invalid_request,
                   .recv_status = status,
                   .counter = counter,
                   .expected = expected,
                   .got = got};
  };
  const PayloadLimits limits = payload_limits(info, connection_.mtu_bytes);
  if (payload < limits.bytes_min || payload > limits.bytes_max) {
    return refused(limits.bytes_max, payload);
  }
  const std::uint64_t before = info.starts_message() ? 0 : received_bytes_;
  switch (info.operation) {
    case Operation::send: {
      const std::uint64_t room = std::min(total_length(queue().front().sges), message_bytes_max);
      if (before + payload > room) {
        return refused(room, before + payload, WcStatus::loc_len_err,
                       Counter::resp_local_length_error);
      }
      return std::nullopt;
    }
    case Operation::write: {
      const std::uint64_t length =
          info.starts_message() ? packet.reth().length_bytes() : write_.length_bytes();
      const std::uint64_t total = before + payload;
      const bool fits = info.ends_message() ? total == length : total < length;
      if (length > message_bytes_max || !fits) {
        return refused(length, total);
      }
      return std::nullopt;
    }
    case Operation::read_request:
    case Operation::flush:
      if (packet.reth().length_bytes() > message_bytes_max) {
        return refused(message_bytes_max, packet.reth().length_bytes());
      }
      return std::nullopt;
    case Operation::atomic_write:
      if (packet.reth().length_bytes() != atomic_bytes) {
        return refused(atomic_bytes, packet.reth().length_bytes());
      }
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

/// IBTA vol 1, 9.7.4.1.5: R_Key, rights and range of all that the request names, checked once when
/// it begins. A request for no bytes names no memory: its key isn't looked at.
RcResponder::Checked RcResponder::check_key(TransportEnv& env, const PacketView& packet) const {
  const OpcodeInfo& info = packet.info();
  if (info.operation == Operation::flush) {
    return std::nullopt;  // It may name all that a key opens: execute_flush() asks.
  }
  Va va{};
  Rkey rkey{};
  std::uint64_t length = 0;
  if (is_atomic(packet.info().operation)) {
    va = packet.atomic_eth().va();
    rkey = packet.atomic_eth().rkey();
    length = atomic_bytes;
  } else if (packet.has(ExtHeader::reth)) {
    va = packet.reth().va();
    rkey = packet.reth().rkey();
    length = packet.reth().length_bytes();
  }
  if (is_aligned_operation(info.operation) && to_value(va) % atomic_bytes != 0) {
    return Refusal{.check = RxCheck::key, .syndrome = invalid_request, .got = to_value(va)};
  }
  if (length == 0 ||
      env.memory.check_remote(memory_user(), rkey, va, length, access_needed(packet))) {
    return std::nullopt;
  }
  return Refusal{.check = RxCheck::key,
                 .syndrome = access_error,
                 .recv_status = WcStatus::loc_access_err,
                 .counter = Counter::resp_remote_access_errors,
                 .got = to_value(rkey)};
}

RcResponder::Checked RcResponder::execute(TransportEnv& env, const PacketView& packet) {
  std::uint32_t psn_count = 1;
  Checked refusal;
  switch (packet.info().operation) {
    case Operation::send:
      refusal = execute_send(env, packet);
      break;
    case Operation::write:
      refusal = execute_write(env, packet);
      break;
    case Operation::read_request:
      psn_count = packets_of(packet.reth().length_bytes(), connection_.mtu_bytes);
      execute_read(env, packet);
      break;
    case Operation::atomic_write:
      refusal = execute_atomic_write(env, packet);
      break;
    case Operation::flush:
      refusal = execute_flush(env, packet);
      break;
    default:
      refusal = execute_atomic(env, packet);
      break;
  }
  if (refusal) {
    return refusal;
  }
  expected_psn_ = expected_psn_ + static_cast<std::int32_t>(psn_count);
  if (keeps_reply(packet.info().operation)) {
    // Its response acknowledges all before it.
    ack_.reset();
  } else if (packet.bth().ack_request() || (ack_ && ack_->syndrome != Syndrome::ack())) {
    // A NAK that still waits is answered by this very packet.
    acknowledge(env, {.psn = packet.psn(), .syndrome = Syndrome::ack(), .msn = msn_});
  }
  return std::nullopt;
}

RcResponder::Checked RcResponder::execute_send(TransportEnv& env, const PacketView& packet) {
  if (packet.info().starts_message()) {
    received_bytes_ = 0;
    inbound_ = Inbound::send;
    receive_.hold();
  }
  if (!scatter(env.memory, connection_.pd, queue().front().sges, received_bytes_,
               packet.payload())) {
    return Refusal{.check = RxCheck::execute,
                   .syndrome = operational_error,
                   .recv_status = WcStatus::loc_prot_err};
  }
  // The data is in place before the window closes, and the window is closed before the completion
  // says so.
  if (packet.info().has_invalidate() &&
      !env.memory.invalidate(memory_user(), packet.ieth().rkey())) {
    return Refusal{.check = RxCheck::key,
                   .syndrome = access_error,
                   .recv_status = WcStatus::loc_access_err,
                   .counter = Counter::resp_remote_access_errors,
                   .got = to_value(packet.ieth().rkey())};
  }
  received_bytes_ += packet.payload().size();
  if (packet.info().ends_message()) {
    end_message(env, packet);
  }
  return std::nullopt;
}

RcResponder::Checked RcResponder::execute_write(TransportEnv& env, const PacketView& packet) {
  if (packet.info().starts_message()) {
    write_ = packet.reth();
    received_bytes_ = 0;
    inbound_ = Inbound::write;
  }
  if (!packet.payload().empty()) {
    // Asked again for each packet: the registration may have gone since the first one.
    const auto host = env.memory.remote(memory_user(), write_.rkey(), write_.va() + received_bytes_,
                                        packet.payload().size(), Access::remote_write);
    if (!host) {
      return Refusal{.check = RxCheck::key,
                     .syndrome = access_error,
                     .recv_status = WcStatus::loc_access_err,
                     .counter = Counter::resp_remote_access_errors,
                     .got = to_value(write_.rkey())};
    }
    place(*host, packet.payload());
  }
  received_bytes_ += packet.payload().size();
  if (packet.info().ends_message()) {
    env.counters.add(Counter::rx_write_requests);
    end_message(env, packet);
  }
  return std::nullopt;
}

void RcResponder::execute_read(TransportEnv& env, const PacketView& packet) {
  env.counters.add(Counter::rx_read_requests);
  // C9-148: a READ counts as soon as it is accepted.
  msn_ = msn_.next();
  const Reth reth = packet.reth();
  Reply& reply = add_reply();
  reply = {.waiting = true,
           .first_psn = packet.psn(),
           .psn_count = packets_of(reth.length_bytes(), connection_.mtu_bytes),
           .msn = msn_,
           .pd = connection_.pd,
           .rkey = reth.rkey(),
           .va = reth.va(),
           .length = reth.length_bytes(),
           .bytes_left = reth.length_bytes(),
           .begins = true};
}

RcResponder::Checked RcResponder::execute_atomic(TransportEnv& env, const PacketView& packet) {
  const AtomicEth eth = packet.atomic_eth();
  const auto host =
      env.memory.remote(memory_user(), eth.rkey(), eth.va(), atomic_bytes, Access::remote_atomic);
  // The address was aligned, but a registration may name its memory by another one.
  if (!host || reinterpret_cast<std::uintptr_t>(*host) % atomic_bytes != 0) {
    return Refusal{.check = RxCheck::key,
                   .syndrome = access_error,
                   .counter = Counter::resp_remote_access_errors,
                   .got = to_value(eth.rkey())};
  }
  env.counters.add(Counter::rx_atomic_requests);
  msn_ = msn_.next();
  const std::uint64_t original = apply_atomic(*host, packet);
  Reply& reply = add_reply();
  reply = {.operation = packet.info().operation,
           .waiting = true,
           .first_psn = packet.psn(),
           .psn_count = 1,
           .msn = msn_,
           .atomic_original = original};
  return std::nullopt;
}

/// Annex A19.4: eight bytes that become visible at once, answered as a READ of no bytes would be.
RcResponder::Checked RcResponder::execute_atomic_write(TransportEnv& env,
                                                       const PacketView& packet) {
  const Reth reth = packet.reth();
  const auto host =
      env.memory.remote(memory_user(), reth.rkey(), reth.va(), atomic_bytes, Access::remote_write);
  if (!host || reinterpret_cast<std::uintptr_t>(*host) % atomic_bytes != 0) {
    return Refusal{.check = RxCheck::key,
                   .syndrome = access_error,
                   .counter = Counter::resp_remote_access_errors,
                   .got = to_value(reth.rkey())};
  }
  env.counters.add(Counter::rx_atomic_requests);
  place(*host, packet.payload());
  answer_without_data(packet);
  return std::nullopt;
}

/// Annex A19.4: what was written before is in place already, so there is nothing to wait for. A
/// duplicate finds its answer kept and does nothing (oA19-14).
RcResponder::Checked RcResponder::execute_flush(TransportEnv& env, const PacketView& packet) {
  const Reth reth = packet.reth();
  if (!env.memory.flush(memory_user(), reth.rkey(), reth.va(), flush_of(packet))) {
    return Refusal{.check = RxCheck::key,
                   .syndrome = access_error,
                   .counter = Counter::resp_remote_access_errors,
                   .got = to_value(reth.rkey())};
  }
  answer_without_data(packet);
  return std::nullopt;
}

void RcResponder::answer_without_data(const PacketView& packet) {
  msn_ = msn_.next();
  add_reply() = {.operation = packet.info().operation,
                 .waiting = true,
                 .first_psn = packet.psn(),
                 .psn_count = 1,
                 .msn = msn_,
                 .begins = true};
}

/// The last packet of a SEND or WRITE is in place.
void RcResponder::end_message(TransportEnv& env, const PacketView& packet) {
  inbound_ = Inbound::idle;
  msn_ = msn_.next();
  const bool is_send = packet.info().operation == Operation::send;
  const bool with_imm = packet.info().has_immediate();
  if (is_send) {
    env.counters.add(Counter::rdma_recvs);
  }
  if (!is_send && !with_imm) {
    return;
  }
  Completion completion;
  completion.opcode = is_send ? WcOpcode::recv : WcOpcode::recv_rdma_with_imm;
  completion.byte_len = static_cast<std::uint32_t>(received_bytes_);
  completion.with_imm = with_imm;
  if (with_imm) {
    completion.imm_or_rkey = packet.imm().value();
  }
  completion.with_inv = packet.info().has_invalidate();
  if (completion.with_inv) {
    completion.imm_or_rkey = to_value(packet.ieth().rkey());
  }
  complete_receive(env, WcStatus::success, completion, packet.bth().solicited());
}

void RcResponder::complete_receive(TransportEnv& env, WcStatus status, Completion completion,
                                   bool solicited) {
  completion.src_qpn = connection_.dest_qpn;
  receive_.complete(env, status, completion, solicited);
}

}  // namespace verbena::ib
