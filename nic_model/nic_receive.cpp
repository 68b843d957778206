// A frame's way in: the checks that come before a queue pair's own, in the order of IBTA vol 1, 9.6
// (packet header validation). The first that fails drops the frame, counts it and says why.

#include <algorithm>

#include "nic_model/nic_impl.h"

namespace verbena::nic {

namespace {

/// ECN "congestion experienced" (RFC 3168, 5).
constexpr unsigned ecn_congestion_experienced = 3;

/// Bit 15 tells full from limited membership; the other bits must be equal, and not both limited
/// (IBTA vol 1, 10.9.3).
bool pkeys_match(Pkey ours, Pkey theirs) {
  constexpr std::uint16_t full_member = 0x8000;
  const auto a = to_value(ours);
  const auto b = to_value(theirs);
  return ((a ^ b) & ~full_member & 0xFFFF) == 0 && ((a | b) & full_member) != 0;
}

/// The VLAN of a frame (IEEE 802.1Q, 9.6): 0 without one, also if a tag tells a priority only.
std::uint16_t vlan_of(const roce::RoceFrame& frame) {
  constexpr unsigned identifier_mask = 0xFFF;
  return static_cast<std::uint16_t>(frame.vlan_control.value_or(0) & identifier_mask);
}

/// The destination is in the GID table, for the version of RoCE and the VLAN that the frame has.
bool is_in_table(const NicConfig& config, const roce::RoceFrame& frame) {
  const auto type =
      frame.version == roce::Version::v1 ? GidEntry::Type::roce_v1 : GidEntry::Type::roce_v2;
  return std::ranges::any_of(config.gids, [&](const GidEntry& entry) {
    return entry.gid == frame.destination && entry.type == type &&
           entry.vlan.value_or(0) == vlan_of(frame);
  });
}

/// Whether a queue pair sent this datagram itself, and doesn't want it back.
bool is_unwanted(const NicConfig& config, const Qp& qp, const roce::RoceFrame& frame,
                 const ib::PacketView& packet) {
  return qp.blocks_own_multicast && packet.info().service == service_of(qp.type) &&
         packet.deth().source_qpn() == qp.qpn &&
         std::ranges::find(config.gids, frame.source, &GidEntry::gid) != config.gids.end();
}

bool is_on_vlan(const NicConfig& config, const roce::RoceFrame& frame) {
  return std::ranges::any_of(
      config.gids, [&](const GidEntry& entry) { return entry.vlan.value_or(0) == vlan_of(frame); });
}

/// PCP of the VLAN tag (IEEE 802.1Q, 9.6), which stands for the service level; 0 without one.
std::uint8_t priority_of(const roce::RoceFrame& frame) {
  constexpr unsigned priority_shift = 13;
  return static_cast<std::uint8_t>(frame.vlan_control.value_or(0) >> priority_shift);
}

bool takes_requests(QpState state) {
  return state == QpState::rtr || state == QpState::rts || state == QpState::sqd ||
         state == QpState::sqe;
}

bool takes_responses(QpState state) { return state == QpState::rts || state == QpState::sqd; }

}  // namespace

RxVerdict Nic::on_frame(Time now, ByteView frame, bool icrc_is_proved) {
  impl_->counters.add(Counter::rcvd_pkts);
  impl_->counters.add(Counter::rx_bytes, frame.size());
  impl_->addressee = nullptr;
  const RxVerdict verdict = impl_->receive(now, frame, icrc_is_proved);
  if (verdict.counter) {
    impl_->counters.add(*verdict.counter);
  }
  if (impl_->addressee != nullptr) {
    impl_->addressee->count_received(frame.size(), verdict.counter);
  }
  if (!impl_->cq_signals.overflowed.empty()) {
    impl_->fail_users_of_overflowed_cqs(now);
  }
  return verdict;
}

RxVerdict Nic::Impl::receive(Time now, ByteView bytes, bool icrc_is_proved) {
  if (!port_is_active) {
    return RxVerdict::drop(RxCheck::frame, Counter::rx_drop_port_down);
  }
  if (config.technology == Technology::iwarp) {
    return RxVerdict::drop(RxCheck::frame, Counter::rx_drop_not_roce);
  }
  const auto frame = roce::parse_frame(bytes);
  if (!frame) {
    const bool foreign = frame.error().kind == roce::FrameError::Kind::not_roce;
    return RxVerdict::drop(RxCheck::frame,
                           foreign ? Counter::rx_drop_not_roce : Counter::rx_drop_malformed,
                           frame.error().expected, frame.error().got);
  }
  const std::uint32_t computed = icrc_is_proved ? frame->wire_icrc() : frame->computed_icrc();
  if (computed != frame->wire_icrc()) {
    return RxVerdict::drop(RxCheck::icrc, Counter::rx_icrc_encapsulated, computed,
                           frame->wire_icrc());
  }
  if (frame->ecn() == ecn_congestion_experienced) {
    counters.add(Counter::np_ecn_marked_roce_packets);
  }
  const bool to_group = !multicast.members(frame->destination).empty();
  if (to_group ? !is_on_vlan(config, *frame) : !is_in_table(config, *frame)) {
    return RxVerdict::drop(RxCheck::address, Counter::rx_drop_wrong_address);
  }
  const auto packet = ib::PacketView::parse(frame->transport);
  if (!packet) {
    const bool unknown = packet.error().kind == ib::ParseError::Kind::opcode_reserved;
    return RxVerdict::drop(RxCheck::opcode,
                           unknown ? Counter::rx_drop_unknown_opcode : Counter::rx_drop_malformed,
                           packet.error().expected, packet.error().got);
  }
  return to_group ? dispatch_to_group(now, *frame, *packet) : dispatch(now, *frame, *packet);
}

RxVerdict Nic::Impl::dispatch(Time now, const roce::RoceFrame& frame,
                              const ib::PacketView& packet) {
  Qp* const qp = qps.find(packet.dest_qpn());
  if (qp == nullptr) {
    return RxVerdict::drop(RxCheck::qp, Counter::rx_drop_unknown_qp, 0,
                           to_value(packet.dest_qpn()));
  }
  addressee = qp;
  if (packet.info().role == ib::Role::notification) {
    counters.add(Counter::rp_cnp_handled);
    return {};
  }
  return deliver(now, *qp, frame, packet);
}

/// Every queue pair of the group gets its copy (IBTA vol 1, 10.5.2.1). The verdict is that of the
/// first that accepts, or else of the last.
RxVerdict Nic::Impl::dispatch_to_group(Time now, const roce::RoceFrame& frame,
                                       const ib::PacketView& packet) {
  if (packet.dest_qpn() != qpn_multicast) {
    return RxVerdict::drop(RxCheck::qp, Counter::rx_drop_unknown_qp, to_value(qpn_multicast),
                           to_value(packet.dest_qpn()));
  }
  const auto members = multicast.members(frame.destination);
  if (std::ranges::all_of(members,
                          [&](const Qp* qp) { return is_unwanted(config, *qp, frame, packet); })) {
    return {};
  }
  RxVerdict verdict = RxVerdict::drop(RxCheck::qp, Counter::rx_drop_unknown_qp);
  for (Qp* const qp : members) {
    if (is_unwanted(config, *qp, frame, packet)) {
      continue;
    }
    const RxVerdict one = deliver(now, *qp, frame, packet);
    qp->count_received(frame.packet.size(), one.counter);
    if (verdict.kind == RxVerdict::Kind::accepted) {
      if (one.counter) {
        counters.add(*one.counter);
      }
    } else {
      verdict = one;
    }
  }
  return verdict;
}

/// The checks of a queue pair that don't depend on its service's state machine.
RxVerdict Nic::Impl::deliver(Time now, Qp& qp, const roce::RoceFrame& frame,
                             const ib::PacketView& packet) {
  const ib::OpcodeInfo& info = packet.info();
  if (info.service != service_of(qp.type)) {
    return RxVerdict::drop(RxCheck::service, Counter::rx_drop_wrong_service,
                           static_cast<std::uint64_t>(service_of(qp.type)),
                           static_cast<std::uint64_t>(info.service));
  }
  const QpState state = qp.attr.state;
  if (info.is_request() ? !takes_requests(state) : !takes_responses(state)) {
    return RxVerdict::drop(RxCheck::qp_state, Counter::rx_drop_qp_state,
                           static_cast<std::uint64_t>(QpState::rts),
                           static_cast<std::uint64_t>(state));
  }
  if (!pkeys_match(pkey_default, packet.bth().pkey())) {
    return RxVerdict::drop(RxCheck::pkey, Counter::rx_drop_pkey, to_value(pkey_default),
                           to_value(packet.bth().pkey()));
  }
  // IBTA vol 1, 9.6.1.2 (GRH checks): both GIDs are those of an address vector of the queue
  // pair.
  if (!is_datagram(qp.type) && !check_path(qp, frame, packet.bth().migrated())) {
    return RxVerdict::drop(RxCheck::peer, Counter::rx_drop_wrong_peer);
  }
  if (info.is_request()) {
    return deliver_request(now, qp, frame, packet);
  }
  auto transport = env(now, qp);
  const auto outcome = std::get<RcHalves>(qp.transport).requester.on_response(transport, packet);
  fail(transport, qp, outcome.failure);
  migrate_if_asked(qp);
  check_drained(qp);
  update_timer(qp);
  mark_ready(qp);
  return outcome.verdict;
}

/// A request, or a datagram, for the responder.
RxVerdict Nic::Impl::deliver_request(Time now, Qp& qp, const roce::RoceFrame& frame,
                                     const ib::PacketView& packet) {
  auto transport = env(now, qp);
  RxVerdict verdict;
  const auto take = [&](const auto& outcome) {
    fail(transport, qp, outcome.failure);
    verdict = outcome.verdict;
  };
  if (auto* const rc = std::get_if<RcHalves>(&qp.transport)) {
    take(rc->responder.on_request(transport, packet));
    mark_ready(qp);
  } else if (auto* const uc = std::get_if<UcHalves>(&qp.transport)) {
    take(uc->responder.on_request(transport, packet));
  } else {
    take(std::get<UdHalves>(qp.transport)
             .responder.on_datagram(transport, packet, frame.network_header(), priority_of(frame)));
  }
  if (qp.srq != nullptr) {
    check_limit(*qp.srq);
  }
  if (qp.xrcd != nullptr) {
    for (const auto& [number, srq] : qp.xrcd->srqs) {
      check_limit(*srq);
    }
  }
  if (qp.comm_est_due && verdict.kind == RxVerdict::Kind::accepted) {
    qp.comm_est_due = false;
    raise({.type = AsyncEventType::comm_est, .qp = &qp});
  }
  return verdict;
}

}  // namespace verbena::nic
