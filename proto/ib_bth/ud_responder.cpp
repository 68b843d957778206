#include "proto/ib_bth/ud_responder.h"

#include "proto/sge_copy.h"

namespace verbena::ib {

namespace {

/// Which one of the three it is: an IPv4 header leaves the first half of its area free, and a GRH
/// is an IPv6 header that says so (IBTA vol 1, 8.3.4).
NetworkHeader kind_of(ByteView network_header) {
  constexpr std::size_t next_header_at = 6;
  constexpr std::byte next_is_bth{0x1B};
  if (network_header.size() < grh_area_bytes) {
    return NetworkHeader::ipv4;
  }
  return network_header[next_header_at] == next_is_bth ? NetworkHeader::grh : NetworkHeader::ipv6;
}

}  // namespace

void UdResponder::activate(const UdResponderConfig& config) {
  config_ = config;
  active_ = true;
}

void UdResponder::flush(TransportEnv& env) {
  active_ = false;
  receive_.flush(env);
}

void UdResponder::reset() {
  active_ = false;
  receive_.reset();
}

std::optional<RxVerdict> UdResponder::check(const PacketView& packet) const {
  if (!active_) {
    return RxVerdict::drop(RxCheck::qp_state, Counter::rx_drop_qp_state);
  }
  const Qkey qkey = packet.deth().qkey();
  if (qkey != config_.qkey) {
    return RxVerdict::drop(RxCheck::qkey, Counter::rx_drop_qkey, to_value(config_.qkey),
                           to_value(qkey));
  }
  const std::uint64_t bytes = packet.payload().size();
  if (bytes > config_.mtu_bytes) {
    return RxVerdict::drop(RxCheck::length, Counter::rx_drop_message, config_.mtu_bytes, bytes);
  }
  if (queue().empty()) {
    return RxVerdict::drop(RxCheck::resources, Counter::out_of_buffer);
  }
  const std::uint64_t room = total_length(queue().front().sges);
  if (grh_area_bytes + bytes > room) {
    // The receive request stays for a datagram that fits.
    return RxVerdict::drop(RxCheck::length, Counter::resp_local_length_error, room,
                           grh_area_bytes + bytes);
  }
  return std::nullopt;
}

UdResponder::Outcome UdResponder::on_datagram(TransportEnv& env, const PacketView& packet,
                                              ByteView network_header, std::uint8_t priority) {
  if (const auto refused = check(packet)) {
    return {.verdict = *refused};
  }
  Completion completion{.opcode = WcOpcode::recv};
  const auto sges = queue().front().sges;
  const bool placed = scatter(env.memory, config_.pd, sges, grh_area_bytes - network_header.size(),
                              network_header) &&
                      scatter(env.memory, config_.pd, sges, grh_area_bytes, packet.payload());
  if (!placed) {
    env.ended_with = WcStatus::loc_prot_err;
    receive_.complete(env, env.ended_with, completion, true);
    return {.verdict = RxVerdict::drop(RxCheck::execute, Counter::rx_drop_message),
            .failure = QpFailure::told_by_completion};
  }
  env.counters.add(Counter::rdma_recvs);
  completion.byte_len = static_cast<std::uint32_t>(grh_area_bytes + packet.payload().size());
  completion.src_qpn = packet.deth().source_qpn();
  completion.with_grh = true;
  completion.sl = priority;
  completion.network_header = kind_of(network_header);
  completion.with_imm = packet.info().has_immediate();
  if (completion.with_imm) {
    completion.imm_or_rkey = packet.imm().value();
  }
  receive_.complete(env, WcStatus::success, completion, packet.bth().solicited());
  return {};
}

}  // namespace verbena::ib
