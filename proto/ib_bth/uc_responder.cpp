#include "proto/ib_bth/uc_responder.h"

#include <algorithm>

#include "proto/sge_copy.h"

namespace verbena::ib {

namespace {

bool is_send(const PacketView& packet) { return packet.info().operation == Operation::send; }

}  // namespace

void UcResponder::activate(const Connection& connection, Psn first_psn, Access access) {
  connection_ = connection;
  expected_psn_ = first_psn;
  access_ = access;
  active_ = true;
}

void UcResponder::flush(TransportEnv& env) {
  active_ = false;
  inbound_ = Inbound::idle;
  receive_.flush(env);
}

void UcResponder::reset() {
  active_ = false;
  inbound_ = Inbound::idle;
  receive_.reset();
}

UcResponder::Outcome UcResponder::on_request(TransportEnv& env, const PacketView& packet) {
  if (!active_) {
    return {.verdict = RxVerdict::drop(RxCheck::qp_state, Counter::rx_drop_qp_state)};
  }
  Checked refused = check_sequence(env, packet);
  if (!refused) {
    refused = check_all(env, packet);
  }
  if (refused) {
    inbound_ = Inbound::idle;
    return {.verdict = *refused};
  }
  return execute(env, packet);
}

/// IBTA vol 1, 9.8.2.2.1: whatever its PSN, a First or Only begins a message; inside a message only
/// the very next packet will do.
UcResponder::Checked UcResponder::check_sequence(TransportEnv& env, const PacketView& packet) {
  const OpcodeInfo& info = packet.info();
  const Psn expected = expected_psn_;
  const bool in_sequence = packet.psn() == expected;
  expected_psn_ = packet.psn().next();
  if (!in_sequence) {
    env.counters.add(Counter::out_of_sequence);
  }
  if (info.starts_message()) {
    inbound_ = is_send(packet) ? Inbound::send : Inbound::write;
    received_bytes_ = 0;
    return std::nullopt;
  }
  if (!in_sequence) {
    return RxVerdict::drop(RxCheck::psn, Counter::rx_drop_out_of_sequence, expected.value(),
                           packet.psn().value());
  }
  if (inbound_ != (is_send(packet) ? Inbound::send : Inbound::write)) {
    return RxVerdict::drop(RxCheck::opcode_sequence, Counter::rx_drop_message, 0,
                           static_cast<std::uint64_t>(packet.opcode()));
  }
  return std::nullopt;
}

UcResponder::Checked UcResponder::check_all(TransportEnv& env, const PacketView& packet) const {
  if (auto refused = check_opcode_allowed(packet)) {
    return refused;
  }
  if (auto refused = check_resources(packet)) {
    return refused;
  }
  if (auto refused = check_length(packet)) {
    return refused;
  }
  return check_key(env, packet);
}

UcResponder::Checked UcResponder::check_opcode_allowed(const PacketView& packet) const {
  if (is_send(packet) || allows(access_, Access::remote_write)) {
    return std::nullopt;
  }
  return RxVerdict::drop(RxCheck::opcode_allowed, Counter::rx_drop_message, 0,
                         static_cast<std::uint64_t>(packet.opcode()));
}

/// IBTA vol 1, 9.7.4.1.6: a SEND takes a receive request with its first packet, a WRITE with
/// immediate data with its last.
UcResponder::Checked UcResponder::check_resources(const PacketView& packet) const {
  if ((is_send(packet) || packet.info().has_immediate()) && queue().empty()) {
    return RxVerdict::drop(RxCheck::resources, Counter::out_of_buffer);
  }
  return std::nullopt;
}

/// IBTA vol 1, 9.7.4.1.7: the payload fits the opcode's position and the path MTU, and the message
/// fits what its RETH or its receive request says.
UcResponder::Checked UcResponder::check_length(const PacketView& packet) const {
  const OpcodeInfo& info = packet.info();
  const std::uint64_t payload = packet.payload().size();
  const PayloadLimits limits = payload_limits(info, connection_.mtu_bytes);
  if (payload < limits.bytes_min || payload > limits.bytes_max) {
    return RxVerdict::drop(RxCheck::length, Counter::rx_drop_message, limits.bytes_max, payload);
  }
  const std::uint64_t total = received_bytes_ + payload;
  if (is_send(packet)) {
    const std::uint64_t room = std::min(total_length(queue().front().sges), message_bytes_max);
    if (total > room) {
      return RxVerdict::drop(RxCheck::length, Counter::resp_local_length_error, room, total);
    }
    return std::nullopt;
  }
  const std::uint64_t length =
      info.starts_message() ? packet.reth().length_bytes() : write_.length_bytes();
  const bool fits = info.ends_message() ? total == length : total < length;
  if (length > message_bytes_max || !fits) {
    return RxVerdict::drop(RxCheck::length, Counter::rx_drop_message, length, total);
  }
  return std::nullopt;
}

/// IBTA vol 1, 9.7.4.1.5: all that a WRITE names, checked once when it begins.
UcResponder::Checked UcResponder::check_key(TransportEnv& env, const PacketView& packet) const {
  if (!packet.has(ExtHeader::reth)) {
    return std::nullopt;
  }
  const Reth reth = packet.reth();
  if (reth.length_bytes() == 0 ||
      env.memory.check_remote(memory_user(), reth.rkey(), reth.va(), reth.length_bytes(),
                              Access::remote_write)) {
    return std::nullopt;
  }
  return RxVerdict::drop(RxCheck::key, Counter::resp_remote_access_errors, 0,
                         to_value(reth.rkey()));
}

UcResponder::Outcome UcResponder::execute(TransportEnv& env, const PacketView& packet) {
  if (packet.has(ExtHeader::reth)) {
    write_ = packet.reth();
  }
  if (is_send(packet) && packet.info().starts_message()) {
    receive_.hold();
  }
  if (!place_data(env, packet)) {
    const bool was_send = inbound_ == Inbound::send;
    inbound_ = Inbound::idle;
    if (!was_send) {
      return {.verdict = RxVerdict::drop(RxCheck::key, Counter::resp_remote_access_errors, 0,
                                         to_value(write_.rkey()))};
    }
    // Our own receive request is bad: that ends the queue pair, and its consumer hears of it.
    env.ended_with = WcStatus::loc_prot_err;
    receive_.complete(env, env.ended_with, {.opcode = WcOpcode::recv}, true);
    return {.verdict = RxVerdict::drop(RxCheck::execute, Counter::rx_drop_message),
            .failure = QpFailure::told_by_completion};
  }
  received_bytes_ += packet.payload().size();
  if (packet.info().ends_message()) {
    end_message(env, packet);
  }
  return {};
}

/// False if the memory doesn't permit it (any more).
bool UcResponder::place_data(TransportEnv& env, const PacketView& packet) {
  if (is_send(packet)) {
    return scatter(env.memory, connection_.pd, queue().front().sges, received_bytes_,
                   packet.payload());
  }
  if (packet.payload().empty()) {
    return true;
  }
  const auto host = env.memory.remote(memory_user(), write_.rkey(), write_.va() + received_bytes_,
                                      packet.payload().size(), Access::remote_write);
  if (!host) {
    return false;
  }
  place(*host, packet.payload());
  return true;
}

void UcResponder::end_message(TransportEnv& env, const PacketView& packet) {
  inbound_ = Inbound::idle;
  const bool with_imm = packet.info().has_immediate();
  env.counters.add(is_send(packet) ? Counter::rdma_recvs : Counter::rx_write_requests);
  if (!is_send(packet) && !with_imm) {
    return;
  }
  Completion completion;
  completion.opcode = is_send(packet) ? WcOpcode::recv : WcOpcode::recv_rdma_with_imm;
  completion.byte_len = static_cast<std::uint32_t>(received_bytes_);
  completion.src_qpn = connection_.dest_qpn;
  completion.with_imm = with_imm;
  if (with_imm) {
    completion.imm_or_rkey = packet.imm().value();
  }
  receive_.complete(env, WcStatus::success, completion, packet.bth().solicited());
}

}  // namespace verbena::ib
