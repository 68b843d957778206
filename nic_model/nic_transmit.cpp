// Posts, the scheduler, and a packet's way out.

#include <algorithm>

#include "nic_model/nic_impl.h"

namespace verbena::nic {

namespace {

/// Packets that a queue pair may send before the next one has its turn.
constexpr std::uint32_t quantum_packets = 16;

/// Wraps what a queue pair sends into frames to its peer.
class Encapsulator final : public PacketSink {
 public:
  Encapsulator(Qp& qp, FrameSink& sink)
      : encapsulation_(*qp.encapsulation), route_(qp.route), sink_(sink), counters_(qp.counters) {}

  MutableBytes reserve(std::size_t bytes) override {
    transport_bytes_ = bytes;
    frame_ = sink_.reserve(route_, encapsulation_.frame_bytes(bytes));
    if (frame_.empty()) {
      return {};
    }
    return frame_.subspan(encapsulation_.prefix_bytes(), bytes);
  }

  void commit(const PacketNote& note) override {
    encapsulation_.write_prefix(frame_, transport_bytes_, sink_.way_fields());
    encapsulation_.finish(frame_, transport_bytes_);
    counters_.add(Counter::sent_pkts);
    counters_.add(Counter::tx_bytes, frame_.size());
    sink_.commit(note);
  }

 private:
  const roce::Encapsulation& encapsulation_;
  const FrameRoute& route_;
  FrameSink& sink_;
  Counters& counters_;
  MutableBytes frame_;
  std::size_t transport_bytes_ = 0;
};

bool takes_sends(QpState state) {
  return state == QpState::rts || state == QpState::sqd || state == QpState::sqe ||
         state == QpState::err;
}

}  // namespace

Result<void, PostError> Nic::post_send(Time now, Qp& qp, const SendWr& wr) {
  if (!takes_sends(qp.attr.state)) {
    return std::unexpected(PostError::wrong_state);
  }
  if (auto posted = qp.requester.post(wr); !posted) {
    return posted;
  }
  if (qp.attr.state == QpState::err) {
    impl_->enter_error(now, qp);
  } else {
    impl_->mark_ready(qp);
  }
  return {};
}

Result<void, PostError> Nic::post_recv(Time now, Qp& qp, const RecvWr& wr) {
  if (qp.attr.state == QpState::reset) {
    return std::unexpected(PostError::wrong_state);
  }
  if (auto posted = qp.responder.post(wr); !posted) {
    return posted;
  }
  if (qp.attr.state == QpState::err) {
    impl_->enter_error(now, qp);
  }
  return {};
}

TransmitStatus Nic::poll_transmit(Time now, FrameSink& sink, std::uint32_t frames_max) {
  const TransmitStatus status = impl_->transmit(now, sink, frames_max);
  if (!impl_->cq_signals.overflowed.empty()) {
    impl_->fail_users_of_overflowed_cqs(now);
  }
  return status;
}

/// Puts a queue pair into the scheduler's list if it has something to send.
void Nic::Impl::mark_ready(Qp& qp) {
  const bool has_work = qp.responder.wants_transmit() || qp.requester.wants_transmit();
  if (has_work && qp.encapsulation && !qp.ready_hook.is_linked()) {
    ready.push_back(qp);
  }
}

void Nic::Impl::unmark_ready(Qp& qp) {
  if (qp.ready_hook.is_linked()) {
    ready.erase(ready.iterator_to(qp));
  }
}

/// Round robin: each ready queue pair sends a quantum, then goes to the end of the list. One whose
/// way is blocked waits for the next call, the others go on.
TransmitStatus Nic::Impl::transmit(Time now, FrameSink& sink, std::uint32_t frames_max) {
  ReadyList blocked;
  while (!ready.empty() && frames_max > 0) {
    Qp& qp = ready.front();
    ready.pop_front();
    switch (transmit_one(now, qp, sink, frames_max)) {
      case ib::TransmitResult::idle:
        break;
      case ib::TransmitResult::more:
        ready.push_back(qp);
        break;
      case ib::TransmitResult::blocked:
        blocked.push_back(qp);
        break;
    }
  }
  const bool more = !ready.empty();
  const bool is_blocked = !blocked.empty();
  ready.splice(ready.end(), blocked);
  return more ? TransmitStatus::more : is_blocked ? TransmitStatus::blocked : TransmitStatus::idle;
}

/// A queue pair's turn: answers before requests, because peers wait for them.
ib::TransmitResult Nic::Impl::transmit_one(Time now, Qp& qp, FrameSink& sink,
                                           std::uint32_t& frames_max) {
  auto transport = env(now, qp);
  Encapsulator packets(qp, sink);
  std::uint32_t quantum = std::min(quantum_packets, frames_max);
  const std::uint32_t given = quantum;
  const auto answered = qp.responder.poll_transmit(transport, packets, quantum);
  fail(transport, qp, answered.failure);
  ib::TransmitResult result = answered.result;
  if (result == ib::TransmitResult::idle) {
    const auto asked = qp.requester.poll_transmit(transport, packets, quantum);
    fail(transport, qp, asked.failure);
    result = asked.result;
    update_timer(qp);
  }
  frames_max -= given - quantum;
  return result;
}

}  // namespace verbena::nic
