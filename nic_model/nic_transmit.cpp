// Posts, the scheduler, and a packet's way out.

#include <algorithm>
#include <utility>
#include <vector>

#include "nic_model/nic_impl.h"

namespace verbena::nic {

namespace {

/// Wraps transport packets into frames.
class Encapsulator {
 public:
  Encapsulator(FrameSink& sink, Counters& counters) : sink_(sink), counters_(counters) {}

  /// Room for a packet of `bytes`. `encapsulation` is read again by commit().
  MutableBytes reserve(const roce::Encapsulation& encapsulation, const FrameRoute& route,
                       std::size_t bytes) {
    encapsulation_ = &encapsulation;
    transport_bytes_ = bytes;
    frame_ = sink_.reserve(route, encapsulation.frame_bytes(bytes));
    if (frame_.empty()) {
      return {};
    }
    return frame_.subspan(encapsulation.prefix_bytes(), bytes);
  }

  void commit(const PacketNote& note) {
    encapsulation_->write_prefix(frame_, transport_bytes_, sink_.way_fields());
    encapsulation_->finish(frame_, transport_bytes_);
    counters_.add(Counter::sent_pkts);
    counters_.add(Counter::tx_bytes, frame_.size());
    sink_.commit(note);
  }

 private:
  FrameSink& sink_;
  Counters& counters_;
  const roce::Encapsulation* encapsulation_ = nullptr;
  MutableBytes frame_;
  std::size_t transport_bytes_ = 0;
};

/// To the peer of a connection.
class ConnectionSink final : public PacketSink {
 public:
  ConnectionSink(const Qp& qp, FrameSink& sink, Counters& counters)
      : qp_(qp), encapsulator_(sink, counters) {}

  MutableBytes reserve(std::size_t bytes) override {
    packet_ = encapsulator_.reserve(*qp_.encapsulation, qp_.route, bytes);
    return packet_;
  }
  void commit(const PacketNote& note) override {
    if (qp_.attr.path_mig_state != PathMigState::migrated) {
      // The halves know nothing of ways (nic_migration.cpp).
      auto bth = read_struct<ib::Bth>(packet_);
      bth.set_migrated(false);
      write_struct(packet_, bth);
    }
    encapsulator_.commit(note);
  }

 private:
  const Qp& qp_;
  Encapsulator encapsulator_;
  MutableBytes packet_;
};

/// To whomever an address handle names.
class AddressedSink final : public DatagramSink {
 public:
  AddressedSink(FrameSink& sink, Counters& counters) : encapsulator_(sink, counters) {}

  MutableBytes reserve(const AddressHandle& to, Qpn destination_qpn, std::size_t bytes) override {
    const Way& way = static_cast<const Ah&>(to).way;
    FrameRoute route = way.route;
    route.destination_qpn = destination_qpn;
    route.may_be_lost = true;
    return encapsulator_.reserve(way.encapsulation, route, bytes);
  }
  void commit(const PacketNote& note) override { encapsulator_.commit(note); }

 private:
  Encapsulator encapsulator_;
};

/// A port that is down: frames are built as ever, and go nowhere.
class NowhereSink final : public FrameSink {
 public:
  explicit NowhereSink(Counters& counters) : counters_(counters) {}

  MutableBytes reserve(const FrameRoute& /*route*/, std::size_t bytes) override {
    frame_.resize(std::max(frame_.size(), bytes));
    return MutableBytes(frame_).first(bytes);
  }
  void commit(const PacketNote& /*note*/) override { counters_.add(Counter::send_err); }

 private:
  Counters& counters_;
  std::vector<std::byte> frame_;
};

bool takes_sends(QpState state) {
  return state == QpState::rts || state == QpState::sqd || state == QpState::sqe ||
         state == QpState::err;
}

/// What a device of this profile doesn't do, though the transport would.
std::optional<PostError> refused_by(const DeviceProfile& profile, const SendWr& wr) {
  switch (wr.opcode) {
    case WrOpcode::atomic_cmp_and_swp:
    case WrOpcode::atomic_fetch_and_add:
      if (profile.atomic_cap == AtomicCap::none) {
        return PostError::opcode_unsupported;
      }
      break;
    case WrOpcode::atomic_write:
    case WrOpcode::flush:
      if (!profile.has_placement_extensions) {
        return PostError::opcode_unsupported;
      }
      break;
    case WrOpcode::rdma_read:
      if (wr.sges.size() > profile.sge_read_max) {
        return PostError::too_many_sges;
      }
      break;
    default:
      break;
  }
  if (profile.send_bytes_max < message_bytes_max &&
      total_length(wr.sges) > profile.send_bytes_max) {
    return PostError::message_too_long;
  }
  return std::nullopt;
}

/// Who goes first: the half that waits since the last turn, so that two peers that READ from each
/// other without end both come to ask; else as told.
std::pair<Qp::Half, Qp::Half> halves_in_turn(const Qp& qp, TransmitOrder order) {
  const bool requests_first = qp.waiting == Qp::Half::none ? order == TransmitOrder::requests_first
                                                           : qp.waiting == Qp::Half::requests;
  return requests_first ? std::pair(Qp::Half::requests, Qp::Half::answers)
                        : std::pair(Qp::Half::answers, Qp::Half::requests);
}

}  // namespace

Result<void, PostError> Nic::post_send(Time now, Qp& qp, const SendWr& wr) {
  if (!takes_sends(qp.attr.state)) {
    return std::unexpected(PostError::wrong_state);
  }
  if (qp.type == QpType::xrc_target) {
    return std::unexpected(PostError::opcode_unsupported);
  }
  if (wr.address != nullptr && &static_cast<const Ah&>(*wr.address).pd != &qp.pd) {
    return std::unexpected(PostError::bad_address);
  }
  if (const auto refusal = refused_by(impl_->profile, wr)) {
    return std::unexpected(*refusal);
  }
  auto transport = impl_->env(now, qp);
  if (auto posted = post(qp, transport, wr); !posted) {
    return posted;
  }
  if (qp.attr.state == QpState::err) {
    impl_->enter_error(now, qp);
  } else if (qp.attr.state == QpState::sqe) {
    impl_->enter_send_queue_error(now, qp);
  } else {
    impl_->mark_ready(qp);
  }
  return {};
}

Result<void, PostError> Nic::post_recv(Time now, Qp& qp, const RecvWr& wr) {
  if (qp.attr.state == QpState::reset) {
    return std::unexpected(PostError::wrong_state);
  }
  if (service_of(qp.type) == ib::Service::xrc) {
    return std::unexpected(PostError::shared_queue);
  }
  auto transport = impl_->env(now, qp);
  if (auto posted = post(qp, transport, wr); !posted) {
    return posted;
  }
  if (qp.attr.state == QpState::err) {
    impl_->enter_error(now, qp);
  }
  return {};
}

TransmitStatus Nic::poll_transmit(Time now, FrameSink& sink, std::uint32_t frames_max,
                                  TransmitOrder order) {
  if (impl_->config.technology == Technology::iwarp) {
    return TransmitStatus::idle;  // Its bytes go by poll_streams().
  }
  NowhereSink nowhere(impl_->counters);
  FrameSink& way = impl_->port_is_active ? sink : nowhere;
  const TransmitStatus status = impl_->take_turns(
      frames_max, [&](Qp& qp) { return impl_->transmit_one(now, qp, way, frames_max, order); });
  if (!impl_->cq_signals.overflowed.empty()) {
    impl_->fail_users_of_overflowed_cqs(now);
  }
  return status;
}

/// Puts a queue pair into the scheduler's list if it has something to send.
void Nic::Impl::mark_ready(Qp& qp) {
  const bool has_way = qp.encapsulation || is_datagram(qp.type) || is_stream(qp);
  if (has_way && !qp.ready_hook.is_linked() && wants_transmit(qp)) {
    ready.push_back(qp);
  }
}

void Nic::Impl::unmark_ready(Qp& qp) {
  if (qp.ready_hook.is_linked()) {
    ready.erase(ready.iterator_to(qp));
  }
}

/// Whether the queue pair's rate lets a request out now. If not, it has its turn again in time.
bool Nic::Impl::may_send_request(Time now, Qp& qp) {
  if (qp.pacer.permits(now)) {
    return true;
  }
  timers.schedule(qp, qp.pacer.next());
  return false;
}

/// A queue pair's turn. One with a limited rate sends a packet at a time.
ib::TransmitResult Nic::Impl::transmit_one(Time now, Qp& qp, FrameSink& sink,
                                           std::uint32_t& frames_max, TransmitOrder order) {
  auto transport = env(now, qp);
  std::uint32_t quantum = std::min(qp.pacer.is_limited() ? 1 : quantum_packets, frames_max);
  const std::uint32_t given = quantum;
  ib::TransmitResult result{};
  const auto note = [&](const auto& transmitted) {
    fail(transport, qp, transmitted.failure);
    result = transmitted.result;
  };
  const auto send_requests = [&](auto& halves, auto& packets) {
    if (may_send_request(now, qp)) {
      const std::uint64_t before = qp.counters[Counter::tx_bytes];
      note(halves.requester.poll_transmit(transport, packets, quantum));
      qp.pacer.sent(now, qp.counters[Counter::tx_bytes] - before);
    }
  };
  if (auto* const rc = std::get_if<RcHalves>(&qp.transport)) {
    ConnectionSink packets(qp, sink, qp.counters);
    const auto send = [&](Qp::Half half) {
      if (half == Qp::Half::requests) {
        send_requests(*rc, packets);
      } else {
        note(rc->responder.poll_transmit(transport, packets, quantum));
      }
    };
    const auto [first, second] = halves_in_turn(qp, order);
    send(first);
    if (quantum < given) {
      qp.waiting = second;
    }
    if (result == ib::TransmitResult::idle) {
      qp.waiting = Qp::Half::none;
      send(second);
    }
    update_timer(qp);
  } else if (auto* const uc = std::get_if<UcHalves>(&qp.transport)) {
    ConnectionSink packets(qp, sink, qp.counters);
    send_requests(*uc, packets);
    check_drained(qp);
  } else {
    AddressedSink packets(sink, qp.counters);
    send_requests(std::get<UdHalves>(qp.transport), packets);
    check_drained(qp);
  }
  frames_max -= given - quantum;
  return result;
}

}  // namespace verbena::nic
