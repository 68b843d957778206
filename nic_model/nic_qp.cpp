// Creating, modifying and destroying queue pairs, and what happens when they fail.

#include <algorithm>
#include <utility>

#include "nic_model/address.h"
#include "nic_model/nic_impl.h"
#include "nic_model/qp_state_table.h"
#include "nic_model/qp_transport.h"

namespace verbena::nic {

namespace {

namespace m = qp_attr_mask;

/// Ranges of the specification's fields.
constexpr std::uint8_t retry_max = 7;
constexpr std::uint8_t five_bits_max = 31;

/// Whether every attribute that `mask` names is in its range.
bool attributes_are_valid(const DeviceProfile& profile, const NicConfig& config, const QpAttr& attr,
                          std::uint32_t mask) {
  const auto given = [mask](std::uint32_t bit) { return (mask & bit) != 0; };
  const std::uint8_t rd_atomic_max = profile.qp_rd_atom_max;
  return !(given(m::port) && attr.port != 1) && !(given(m::pkey_index) && attr.pkey_index != 0) &&
         !(given(m::path_mtu) &&
           (attr.path_mtu < Mtu::mtu_256 || attr.path_mtu > config.mtu_max)) &&
         !(given(m::timeout) && attr.timeout > five_bits_max) &&
         !(given(m::retry_cnt) && attr.retry_cnt > retry_max) &&
         !(given(m::rnr_retry) && attr.rnr_retry > retry_max) &&
         !(given(m::min_rnr_timer) && attr.min_rnr_timer > five_bits_max) &&
         !(given(m::max_qp_rd_atomic) && attr.max_rd_atomic > rd_atomic_max) &&
         !(given(m::max_dest_rd_atomic) && attr.max_dest_rd_atomic > rd_atomic_max) &&
         !(given(m::dest_qpn) && to_value(attr.dest_qpn) > qpn_mask);
}

/// As rdma-core's drivers for hardware do it (mlx5: __mlx5_cq_clean()).
void purge_completions(const Qp& qp) {
  qp.send_cq.purge(qp.qpn);
  qp.recv_cq.purge(qp.qpn);
}

/// Copies what `mask` names.
void apply(QpAttr& to, const QpAttr& from, std::uint32_t mask) {
  const auto copy = [&](std::uint32_t bit, auto QpAttr::* member) {
    if ((mask & bit) != 0) {
      to.*member = from.*member;
    }
  };
  copy(m::en_sqd_async_notify, &QpAttr::en_sqd_async_notify);
  copy(m::access_flags, &QpAttr::access_flags);
  copy(m::pkey_index, &QpAttr::pkey_index);
  copy(m::port, &QpAttr::port);
  copy(m::qkey, &QpAttr::qkey);
  copy(m::av, &QpAttr::av);
  copy(m::path_mtu, &QpAttr::path_mtu);
  copy(m::timeout, &QpAttr::timeout);
  copy(m::retry_cnt, &QpAttr::retry_cnt);
  copy(m::rnr_retry, &QpAttr::rnr_retry);
  copy(m::rq_psn, &QpAttr::rq_psn);
  copy(m::sq_psn, &QpAttr::sq_psn);
  copy(m::max_qp_rd_atomic, &QpAttr::max_rd_atomic);
  copy(m::max_dest_rd_atomic, &QpAttr::max_dest_rd_atomic);
  copy(m::min_rnr_timer, &QpAttr::min_rnr_timer);
  copy(m::dest_qpn, &QpAttr::dest_qpn);
  copy(m::alt_path, &QpAttr::alt_av);
  copy(m::alt_path, &QpAttr::alt_pkey_index);
  copy(m::alt_path, &QpAttr::alt_port);
  copy(m::alt_path, &QpAttr::alt_timeout);
}

bool has_service(const DeviceProfile& profile, QpType type) {
  switch (type) {
    case QpType::uc:
      return profile.has_uc;
    case QpType::ud:
      return profile.has_ud;
    case QpType::xrc_initiator:
    case QpType::xrc_target:
      return profile.has_xrc;
    case QpType::gsi:
    case QpType::rc:
      break;
  }
  return true;
}

/// The general services interface is the device's own: it isn't measured by what it offers.
bool caps_are_valid(const DeviceProfile& limits, const QpInitAttr& attr) {
  const QpCaps& caps = attr.caps;
  return attr.type == QpType::gsi ||
         (caps.send_wr_max <= limits.qp_wr_max && caps.recv_wr_max <= limits.qp_wr_max &&
          caps.send_sge_max <= limits.sge_max && caps.recv_sge_max <= limits.sge_max &&
          caps.inline_bytes_max <= limits.inline_bytes_max);
}

}  // namespace

void Nic::add_qpn_block(Qpn first, std::uint32_t count) { impl_->qps.add_block(first, count); }

namespace {

/// An XRC queue pair has one half, and no receive requests of its own; the other half is there and
/// does nothing (IBTA vol 1, annex A14).
QpInitAttr completed(QpInitAttr attr) {
  const bool is_target = attr.type == QpType::xrc_target;
  if (is_target && attr.xrcd != nullptr) {
    attr.send_cq = &attr.xrcd->cq;
  }
  if (is_target || attr.type == QpType::xrc_initiator) {
    attr.recv_cq = attr.send_cq;
    attr.srq = nullptr;
    attr.caps.recv_wr_max = 0;
  }
  return attr;
}

}  // namespace

Result<Qp*, NicError> Nic::create_qp(Pd& pd, const QpInitAttr& asked) {
  const DeviceProfile& limits = impl_->profile;
  const QpInitAttr attr = completed(asked);
  if (!has_service(limits, attr.type)) {
    return std::unexpected(NicError::unsupported);
  }
  if ((attr.type == QpType::xrc_target) != (attr.xrcd != nullptr) || attr.send_cq == nullptr ||
      attr.recv_cq == nullptr || !caps_are_valid(limits, attr)) {
    return std::unexpected(NicError::invalid_argument);
  }
  if (impl_->config.technology == Technology::iwarp && attr.type != QpType::rc) {
    return std::unexpected(NicError::unsupported);
  }
  const bool has_gsi = find_qp(qpn_gsi) != nullptr;
  if (attr.type == QpType::gsi) {
    if (has_gsi) {
      return std::unexpected(NicError::busy);
    }
  } else if (impl_->qps.count() - (has_gsi ? 1 : 0) >= limits.qp_max) {
    return std::unexpected(NicError::limit_reached);
  }
  const auto qpn = attr.type == QpType::gsi ? qpn_gsi : impl_->qps.take_number();
  if (!qpn) {
    return std::unexpected(NicError::qpns_exhausted);
  }
  const TransportChoice choice{.technology = impl_->config.technology,
                               .rdmap_extensions = limits.has_rdmap_extensions};
  Qp& qp = impl_->qps.insert(std::make_unique<Qp>(*qpn, pd, attr, choice, impl_->counters));
  ++pd.users;
  ++qp.send_cq.users;
  ++qp.recv_cq.users;
  if (qp.srq != nullptr) {
    ++qp.srq->users;
  }
  if (attr.type == QpType::gsi) {
    impl_->tell_gsi_addresses(true);
  }
  return &qp;
}

Result<void, NicError> Nic::destroy_qp(Qp& qp) {
  if (!impl_->multicast.groups_of(qp).empty()) {
    return std::unexpected(NicError::busy);
  }
  if (qp.type == QpType::gsi) {
    impl_->tell_gsi_addresses(false);
  }
  --qp.pd.users;
  --qp.send_cq.users;
  --qp.recv_cq.users;
  if (qp.srq != nullptr) {
    --qp.srq->users;
  }
  impl_->unmark_ready(qp);
  impl_->timers.cancel(qp);
  purge_completions(qp);
  std::erase_if(impl_->events, [&](const AsyncEvent& event) { return event.qp == &qp; });
  impl_->qps.erase(qp);
  return {};
}

Qp* Nic::find_qp(Qpn qpn) const { return impl_->qps.find(qpn); }

Result<void, NicError> Nic::modify_qp(Time now, Qp& qp, const QpAttr& attr, std::uint32_t mask) {
  if (is_stream(qp)) {
    return impl_->modify_stream_qp(now, qp, attr, mask);
  }
  const QpState from = qp.attr.state;
  const QpState to = (mask & m::state) != 0 ? attr.state : from;
  const bool from_is_right = (mask & m::cur_state) == 0 || attr.cur_state == from;
  if (!from_is_right || !transition_permits(qp.type, from, to, mask) ||
      !attributes_are_valid(impl_->profile, impl_->config, attr, mask) ||
      ((mask & m::av) != 0 && !address_is_valid(impl_->config, attr.av)) ||
      !path_attributes_are_valid(impl_->config, qp, attr, mask)) {
    return std::unexpected(NicError::invalid_argument);
  }
  apply(qp.attr, attr, mask);
  // Whatever the program permits: what the device doesn't have is an invalid request (9.7.4.1.4).
  if (impl_->profile.atomic_cap == AtomicCap::none) {
    qp.attr.access_flags = without(qp.attr.access_flags, Access::remote_atomic);
  }
  if (!impl_->profile.has_placement_extensions) {
    qp.attr.access_flags =
        without(qp.attr.access_flags, Access::flush_global | Access::flush_persistent);
  }
  if ((mask & m::av) != 0) {
    set_path(qp, impl_->config);
  }
  if ((mask & m::alt_path) != 0) {
    set_alternate_path(qp, impl_->config);
  }
  if ((mask & m::path_mig_state) != 0) {
    impl_->set_path_mig_state(qp, attr.path_mig_state);
  }
  impl_->set_state(now, qp, to);
  return {};
}

Result<void, NicError> Nic::limit_rate(Qp& qp, const RateLimit& limit) {
  if (impl_->profile.rate_limit_kbps_max == 0 || is_stream(qp)) {
    return std::unexpected(NicError::unsupported);
  }
  const bool is_sending = qp.attr.state == QpState::rts || qp.attr.state == QpState::sqd;
  if (!is_sending || limit.kbps > impl_->profile.rate_limit_kbps_max) {
    return std::unexpected(NicError::invalid_argument);
  }
  qp.pacer.set(limit);
  impl_->mark_ready(qp);
  return {};
}

QpAttr Nic::query_qp(const Qp& qp) const {
  QpAttr attr = qp.attr;
  attr.cur_state = attr.state;
  if (attr.state == QpState::rts || attr.state == QpState::sqd) {
    attr.sq_psn = next_send_psn(qp);
  }
  if (attr.state != QpState::reset && attr.state != QpState::init) {
    attr.rq_psn = expected_psn(qp).value_or(attr.rq_psn);
  }
  return attr;
}

/// Does what entering a state means; the attributes have been applied.
void Nic::Impl::set_state(Time now, Qp& qp, QpState to) {
  const QpState from = qp.attr.state;
  qp.attr.state = to;
  if (from != to) {
    tell_observer(qp, from, QpChange::Cause::command);
  }
  switch (to) {
    case QpState::reset:
      nic::reset(qp);
      qp.attr = QpAttr{};
      qp.encapsulation.reset();
      qp.alternate.reset();
      qp.pacer.set({});
      qp.path_mig_err_told = false;
      qp.comm_est_due = qp.sq_drained_due = qp.last_wqe_told = false;
      timers.cancel(qp);
      unmark_ready(qp);
      purge_completions(qp);
      break;
    case QpState::init:
      break;
    case QpState::rtr:
      activate_responder(qp, config);
      // Datagrams establish nothing.
      qp.comm_est_due = !is_datagram(qp.type);
      break;
    case QpState::rts:
      qp.comm_est_due = qp.sq_drained_due = false;
      reconfigure(qp, config);
      if (from == QpState::rtr) {
        activate_requester(qp, config);
      } else if (from == QpState::sqe) {
        resume_requester(qp);
      }
      set_draining(qp, false);
      mark_ready(qp);
      break;
    case QpState::sqd:
      reconfigure(qp, config);
      set_draining(qp, true);
      qp.sq_drained_due = from != QpState::sqd ? qp.attr.en_sqd_async_notify : qp.sq_drained_due;
      check_drained(qp);
      break;
    case QpState::sqe:
      break;
    case QpState::err:
      enter_error(now, qp);
      break;
  }
}

/// Flushes both queues. Answers that wait are still sent: a NAK tells the peer why.
void Nic::Impl::enter_error(Time now, Qp& qp) {
  qp.attr.state = QpState::err;
  auto transport = env(now, qp);
  nic::flush(qp, transport);
  qp.comm_est_due = qp.sq_drained_due = false;
  if (is_stream(qp)) {
    mark_ready(qp);  // Its connection ends.
  }
  if (qp.srq != nullptr && !std::exchange(qp.last_wqe_told, true)) {
    // IBTA vol 1, 11.6.3.1: no request of the shared queue belongs to this queue pair any more.
    raise({.type = AsyncEventType::qp_last_wqe_reached, .qp = &qp});
  }
  fail_users_of_overflowed_cqs(now);
}

/// IBTA vol 1, 10.3.1.6: what is posted to the send queue is flushed; the receive queue works on.
void Nic::Impl::enter_send_queue_error(Time now, Qp& qp) {
  qp.attr.state = QpState::sqe;
  auto transport = env(now, qp);
  flush_requester(qp, transport);
  qp.sq_drained_due = false;
  fail_users_of_overflowed_cqs(now);
}

void Nic::Impl::fail(const ib::TransportEnv& env, Qp& qp, ib::QpFailure failure) {
  const QpState from = qp.attr.state;
  if (failure == ib::QpFailure::none || from == QpState::err) {
    return;
  }
  if (failure == ib::QpFailure::send_queue_error) {
    enter_send_queue_error(env.now, qp);
  } else {
    enter_error(env.now, qp);
  }
  switch (failure) {
    case ib::QpFailure::none:
      break;
    case ib::QpFailure::told_by_completion:
    case ib::QpFailure::send_queue_error:
      tell_observer(qp, from, QpChange::Cause::completion_error, env.ended_with);
      break;
    case ib::QpFailure::request_error:
      tell_observer(qp, from, QpChange::Cause::invalid_request);
      raise({.type = AsyncEventType::qp_req_err, .qp = &qp});
      break;
    case ib::QpFailure::access_error:
      tell_observer(qp, from, QpChange::Cause::access_violation);
      raise({.type = AsyncEventType::qp_access_err, .qp = &qp});
      break;
  }
}

void Nic::Impl::tell_observer(const Qp& qp, QpState from, QpChange::Cause cause,
                              WcStatus status) const {
  if (observer != nullptr) {
    observer->on_qp_change(qp, {.from = from, .cause = cause, .status = status});
  }
}

void Nic::Impl::check_drained(Qp& qp) {
  if (qp.sq_drained_due && is_drained(qp)) {
    qp.sq_drained_due = false;
    raise({.type = AsyncEventType::sq_drained, .qp = &qp});
  }
}

/// A queue pair whose completions are lost can't tell the truth any more (IBTA vol 1, 11.6.3.2: CQ
/// error): it goes to the error state with an event of its own.
void Nic::Impl::fail_users_of_overflowed_cqs(Time now) {
  auto& overflowed = cq_signals.overflowed;
  while (!overflowed.empty()) {
    Cq* const cq = overflowed.back();
    overflowed.pop_back();
    raise({.type = AsyncEventType::cq_err, .cq = cq});
    qps.for_each([&](Qp& qp) {
      if ((&qp.send_cq == cq || &qp.recv_cq == cq) && qp.attr.state != QpState::err &&
          qp.attr.state != QpState::reset) {
        const QpState from = qp.attr.state;
        enter_error(now, qp);
        tell_observer(qp, from, QpChange::Cause::cq_overflow);
        raise({.type = AsyncEventType::qp_fatal, .qp = &qp});
      }
    });
  }
}

}  // namespace verbena::nic
