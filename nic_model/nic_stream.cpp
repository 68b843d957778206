// Queue pairs of an iWARP device: reliable connections over byte streams. The states that the verbs
// know stand for those of RDMAP ("RDMA Protocol Verbs", draft-hilland-rddp-verbs, 6.2):
//
//   RESET, INIT   idle
//   RTS           rts: only attach_stream() leads there, when a connection has been agreed on
//   SQD           closing: what was posted is sent, then the connection closes, and INIT follows
//   ERR           terminate, error
//
// A change to RTR is permitted and does nothing: consumers that connect on InfiniBand's way make
// it, and Linux' drivers of such devices let it pass as well.

#include <algorithm>
#include <array>
#include <utility>

#include "nic_model/nic_impl.h"

namespace verbena::nic {

namespace {

namespace m = qp_attr_mask;

struct Transition {
  QpState from;
  QpState to;
};
using enum QpState;

/// Besides these, any state may become RESET or ERR.
constexpr std::array transitions{Transition{reset, init}, Transition{init, init},
                                 Transition{init, rtr}, Transition{rts, rts}, Transition{rts, sqd}};

/// What consumers tell that take the queue pair for one of InfiniBand's is let pass.
constexpr std::uint32_t attributes_permitted = m::state | m::cur_state | m::access_flags |
                                               m::en_sqd_async_notify | m::pkey_index | m::port |
                                               m::max_qp_rd_atomic | m::max_dest_rd_atomic;

bool is_permitted(QpState from, const QpAttr& attr, std::uint32_t mask) {
  const QpState to = (mask & m::state) != 0 ? attr.state : from;
  const bool from_is_right = (mask & m::cur_state) == 0 || attr.cur_state == from;
  const bool port_is_right = (mask & m::port) == 0 || attr.port == 1;
  return from_is_right && port_is_right && (mask & ~attributes_permitted) == 0 &&
         (to == reset || to == err || std::ranges::any_of(transitions, [&](const Transition& row) {
            return row.from == from && row.to == to;
          }));
}

QpState verbs_state(iwarp::StreamState state, QpState before) {
  switch (state) {
    case iwarp::StreamState::idle:
      return before == reset ? reset : init;
    case iwarp::StreamState::rts:
      return rts;
    case iwarp::StreamState::closing:
      return sqd;
    case iwarp::StreamState::terminate:
    case iwarp::StreamState::error:
      break;
  }
  return err;
}

/// The peer had no right to the memory that it named.
bool is_access_violation(iwarp::TerminateReason reason) {
  const iwarp::TerminateCode code = iwarp::code_of(reason);
  constexpr std::uint8_t protection_or_tagged = 1;
  return code.layer != iwarp::TerminateLayer::llp && code.type == protection_or_tagged;
}

/// Counts what goes into a stream.
class CountingSink final : public iwarp::StreamSink {
 public:
  CountingSink(iwarp::StreamSink& sink, Counters& counters) : sink_(sink), counters_(counters) {}

  MutableBytes reserve(std::size_t bytes) override {
    bytes_ = bytes;
    return sink_.reserve(bytes);
  }
  void commit() override {
    counters_.add(Counter::sent_pkts);
    counters_.add(Counter::tx_bytes, bytes_);
    sink_.commit();
  }

 private:
  iwarp::StreamSink& sink_;
  Counters& counters_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::uint16_t Nic::ird_max() const { return stream_ird_max; }

Result<void, NicError> Nic::Impl::modify_stream_qp(Time now, Qp& qp, const QpAttr& attr,
                                                   std::uint32_t mask) {
  const QpState from = qp.attr.state;
  if (!is_permitted(from, attr, mask)) {
    return std::unexpected(NicError::invalid_argument);
  }
  if ((mask & m::access_flags) != 0) {
    qp.attr.access_flags = profile.atomic_cap == AtomicCap::none
                               ? without(attr.access_flags, Access::remote_atomic)
                               : attr.access_flags;
  }
  const QpState to = (mask & m::state) != 0 ? attr.state : from;
  if (to == from || to == rtr) {
    return {};
  }
  if (to == sqd) {
    auto lent = stream_env(env(now, qp));
    auto& stream = std::get<Stream>(qp.transport);
    stream.qp.disconnect(lent);
    stream.is_turn_due = true;
    qp.attr.state = sqd;
    qp.sq_drained_due = (mask & m::en_sqd_async_notify) != 0 && attr.en_sqd_async_notify;
    check_drained(qp);
    tell_observer(qp, from, QpChange::Cause::command);
  } else {
    set_state(now, qp, to);
  }
  mark_ready(qp);
  return {};
}

Result<void, NicError> Nic::attach_stream(Time /*now*/, Qp& qp, const StreamAttr& attr) {
  auto* const stream = std::get_if<Stream>(&qp.transport);
  if (stream == nullptr || qp.attr.state != QpState::init || stream->is_open ||
      attr.segment_bytes == 0 || attr.agreement.depths.ird > stream_ird_max) {
    return std::unexpected(NicError::invalid_argument);
  }
  stream->qp.activate({.agreement = attr.agreement,
                       .is_initiator = attr.is_initiator,
                       .pd = qp.pd.id,
                       .access = qp.attr.access_flags,
                       .segment_bytes = attr.segment_bytes});
  stream->is_open = true;
  stream->is_abandoned = false;
  const auto depth = [](std::uint16_t reads) {
    return static_cast<std::uint8_t>(std::min<std::uint16_t>(reads, 0xFF));
  };
  qp.attr.max_rd_atomic = depth(attr.agreement.depths.ord);
  qp.attr.max_dest_rd_atomic = depth(attr.agreement.depths.ird);
  qp.attr.state = QpState::rts;
  impl_->tell_observer(qp, QpState::init, QpChange::Cause::command);
  impl_->mark_ready(qp);
  return {};
}

void Nic::on_stream(Time now, Qp& qp, ByteView bytes) {
  qp.counters.add(Counter::rx_bytes, bytes.size());
  auto lent = stream_env(impl_->env(now, qp));
  std::get<Stream>(qp.transport).qp.on_stream(lent, bytes);
  if (qp.srq != nullptr) {
    impl_->check_limit(*qp.srq);
  }
  impl_->follow_stream(now, qp);
}

void Nic::on_stream_end(Time now, Qp& qp) {
  auto lent = stream_env(impl_->env(now, qp));
  std::get<Stream>(qp.transport).qp.on_stream_end(lent);
  impl_->follow_stream(now, qp);
}

void Nic::on_stream_closed(Time now, Qp& qp) {
  auto& stream = std::get<Stream>(qp.transport);
  stream.is_open = stream.is_abandoned = false;
  if (stream.qp.state() == iwarp::StreamState::idle) {
    return;  // It was reset meanwhile.
  }
  auto lent = stream_env(impl_->env(now, qp));
  stream.qp.on_stream_closed(lent);
  impl_->follow_stream(now, qp);
}

/// The verbs' state follows that of the stream, which may have changed.
void Nic::Impl::follow_stream(Time now, Qp& qp) {
  const iwarp::StreamQp& stream = std::get<Stream>(qp.transport).qp;
  const QpState from = qp.attr.state;
  const QpState to = verbs_state(stream.state(), from);
  if (to != from && to == QpState::err) {
    enter_error(now, qp);
    tell_end_of_stream(qp, from, stream);
  } else if (to != from) {
    qp.attr.state = to;
    tell_observer(qp, from, QpChange::Cause::command);
  }
  check_drained(qp);
  mark_ready(qp);
  fail_users_of_overflowed_cqs(now);
}

/// Why a queue pair is in the error state. What no completion tells is an event ("RDMA Protocol
/// Verbs", 9.5.2): a WRITE that the peer refuses has long been complete.
void Nic::Impl::tell_end_of_stream(Qp& qp, QpState from, const iwarp::StreamQp& stream) {
  using Cause = QpChange::Cause;
  if (const auto status = stream.failed_with()) {
    tell_observer(qp, from, Cause::completion_error, *status);
    return;
  }
  const auto reason = stream.sent_terminate();
  const bool is_protocol_error =
      reason && iwarp::code_of(*reason).layer != iwarp::TerminateLayer::llp;
  if (!is_protocol_error) {
    tell_observer(qp, from, Cause::connection_lost);
    raise({.type = AsyncEventType::qp_fatal, .qp = &qp});
  } else if (is_access_violation(*reason)) {
    tell_observer(qp, from, Cause::access_violation);
    raise({.type = AsyncEventType::qp_access_err, .qp = &qp});
  } else {
    tell_observer(qp, from, Cause::invalid_request);
    raise({.type = AsyncEventType::qp_req_err, .qp = &qp});
  }
}

TransmitStatus Nic::poll_streams(Time now, StreamPort& port, std::uint32_t fpdus_max) {
  return impl_->take_turns(
      fpdus_max, [&](Qp& qp) { return impl_->transmit_stream(now, qp, port, fpdus_max); });
}

/// A queue pair's turn. When it has nothing more to say for good, its connection is closed.
ib::TransmitResult Nic::Impl::transmit_stream(Time now, Qp& qp, StreamPort& port,
                                              std::uint32_t& fpdus_max) {
  auto& stream = std::get<Stream>(qp.transport);
  std::uint32_t quantum = std::min(quantum_packets, fpdus_max);
  const std::uint32_t given = quantum;
  auto sent = iwarp::StreamTransmitted::idle;
  stream.is_turn_due = false;
  if (stream.is_open && !stream.is_abandoned) {
    CountingSink sink(port.stream_of(qp), qp.counters);
    auto lent = stream_env(env(now, qp));
    sent = stream.qp.poll_transmit(lent, sink, quantum);
    follow_stream(now, qp);
  }
  if (sent == iwarp::StreamTransmitted::idle && stream.wants_close()) {
    const bool is_in_order = !stream.is_abandoned && stream.qp.state() != iwarp::StreamState::error;
    stream.is_open = stream.is_abandoned = false;
    port.close_stream(qp, is_in_order ? StreamPort::Close::in_order : StreamPort::Close::abort);
  }
  fpdus_max -= given - quantum;
  // Whoever calls puts it back where it belongs.
  unmark_ready(qp);
  if (sent == iwarp::StreamTransmitted::blocked) {
    return ib::TransmitResult::blocked;
  }
  return wants_transmit(qp) ? ib::TransmitResult::more : ib::TransmitResult::idle;
}

}  // namespace verbena::nic
