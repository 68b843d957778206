// Creating, modifying and destroying queue pairs, and what happens when they fail.

#include <algorithm>

#include "nic_model/nic_impl.h"
#include "nic_model/qp_state_table.h"
#include "proto/ib_bth/aeth.h"
#include "proto/roce/gid.h"
#include "proto/roce/sport.h"

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

/// An address vector can be used: a GRH as RoCE wants it, a GID of ours, a peer of the same kind.
bool address_is_valid(const NicConfig& config, const AddressVector& av) {
  return av.has_grh && av.port == 1 && av.sgid_index < config.gids.size() &&
         config.gids[av.sgid_index].type == GidEntry::Type::roce_v2 &&
         roce::ipv4_from_gid(config.gids[av.sgid_index].gid).has_value() &&
         roce::ipv4_from_gid(av.dgid).has_value();
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
}

ib::RcConnection connection_of(const Qp& qp) {
  return {.dest_qpn = qp.attr.dest_qpn,
          .pkey = pkey_default,
          .pd = qp.pd.id,
          .mtu_bytes = mtu_bytes(qp.attr.path_mtu)};
}

ib::RcRequesterConfig requester_config(const Qp& qp, const NicConfig& config) {
  auto timeout = ib::ack_timeout(qp.attr.timeout);
  if (timeout) {
    timeout = std::max(*timeout, config.ack_timeout_min);
  }
  return {.first_psn = qp.attr.sq_psn,
          .ack_timeout = timeout,
          .retry_cnt = qp.attr.retry_cnt,
          .rnr_retry = qp.attr.rnr_retry,
          .max_rd_atomic = qp.attr.max_rd_atomic};
}

ib::RcResponderConfig responder_config(const Qp& qp) {
  return {.first_psn = qp.attr.rq_psn,
          .max_dest_rd_atomic = qp.attr.max_dest_rd_atomic,
          .min_rnr_timer = qp.attr.min_rnr_timer,
          .access = qp.attr.access_flags};
}

/// Lays out the headers of every packet to the peer.
void set_path(Qp& qp, const NicConfig& config) {
  const AddressVector& av = qp.attr.av;
  // A hop limit of 0 is what programs leave that don't care; 64 is the usual default (RFC 1700).
  constexpr std::uint8_t hop_limit_default = 64;
  const Gid& source = config.gids[av.sgid_index].gid;
  qp.encapsulation.emplace(roce::Path{
      .version = roce::Version::v2_ipv4,
      .destination_mac = mac_of(*roce::ipv4_from_gid(av.dgid)),
      .source_mac = mac_of(*roce::ipv4_from_gid(source)),
      .source = source,
      .destination = av.dgid,
      .traffic_class = av.traffic_class,
      .hop_limit = av.hop_limit == 0 ? hop_limit_default : av.hop_limit,
      .flow_label = av.flow_label,
      .identification = 0,
      .udp_source_port = av.flow_label != 0 ? roce::udp_source_port(av.flow_label)
                                            : roce::udp_source_port(qp.qpn, qp.attr.dest_qpn)});
  const roce::Path& path = qp.encapsulation->path();
  qp.route = {.source = source,
              .destination = av.dgid,
              .destination_qpn = qp.attr.dest_qpn,
              .traffic_class = path.traffic_class,
              .hop_limit = path.hop_limit};
}

}  // namespace

inet::MacAddress mac_of(inet::Ipv4Address address) {
  // 02 in the first byte: locally administered (IEEE 802-2014, 8.4).
  return {{0x02, 0x00, address.bytes[0], address.bytes[1], address.bytes[2], address.bytes[3]}};
}

void Nic::add_qpn_block(Qpn first, std::uint32_t count) { impl_->qps.add_block(first, count); }

Result<Qp*, NicError> Nic::create_qp(Pd& pd, const QpInitAttr& attr) {
  const DeviceProfile& limits = impl_->profile;
  if (attr.type != QpType::rc) {
    return std::unexpected(NicError::unsupported);
  }
  if (attr.send_cq == nullptr || attr.recv_cq == nullptr ||
      attr.caps.send_wr_max > limits.qp_wr_max || attr.caps.recv_wr_max > limits.qp_wr_max ||
      attr.caps.send_sge_max > limits.sge_max || attr.caps.recv_sge_max > limits.sge_max ||
      attr.caps.inline_bytes_max > limits.inline_bytes_max) {
    return std::unexpected(NicError::invalid_argument);
  }
  if (impl_->qps.count() >= limits.qp_max) {
    return std::unexpected(NicError::limit_reached);
  }
  const auto qpn = impl_->qps.take_number();
  if (!qpn) {
    return std::unexpected(NicError::qpns_exhausted);
  }
  Qp& qp = impl_->qps.insert(std::make_unique<Qp>(*qpn, pd, attr, impl_->counters));
  ++pd.users;
  ++qp.send_cq.users;
  ++qp.recv_cq.users;
  return &qp;
}

Result<void, NicError> Nic::destroy_qp(Qp& qp) {
  --qp.pd.users;
  --qp.send_cq.users;
  --qp.recv_cq.users;
  impl_->unmark_ready(qp);
  impl_->timers.cancel(qp);
  purge_completions(qp);
  std::erase_if(impl_->events, [&](const AsyncEvent& event) { return event.qp == &qp; });
  impl_->qps.erase(qp);
  return {};
}

Qp* Nic::find_qp(Qpn qpn) const { return impl_->qps.find(qpn); }

Result<void, NicError> Nic::modify_qp(Time now, Qp& qp, const QpAttr& attr, std::uint32_t mask) {
  const QpState from = qp.attr.state;
  const QpState to = (mask & m::state) != 0 ? attr.state : from;
  const bool from_is_right = (mask & m::cur_state) == 0 || attr.cur_state == from;
  if (!from_is_right || !transition_permits(qp.type, from, to, mask) ||
      !attributes_are_valid(impl_->profile, impl_->config, attr, mask) ||
      ((mask & m::av) != 0 && !address_is_valid(impl_->config, attr.av))) {
    return std::unexpected(NicError::invalid_argument);
  }
  if ((mask & (m::alt_path | m::path_mig_state | m::rate_limit)) != 0) {
    return std::unexpected(NicError::unsupported);
  }
  apply(qp.attr, attr, mask);
  if ((mask & m::av) != 0) {
    set_path(qp, impl_->config);
  }
  impl_->set_state(now, qp, to);
  return {};
}

QpAttr Nic::query_qp(const Qp& qp) const {
  QpAttr attr = qp.attr;
  attr.cur_state = attr.state;
  if (attr.state == QpState::rts || attr.state == QpState::sqd) {
    attr.sq_psn = qp.requester.next_psn();
  }
  if (attr.state != QpState::reset && attr.state != QpState::init) {
    attr.rq_psn = qp.responder.expected_psn();
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
      qp.requester.reset();
      qp.responder.reset();
      qp.attr = QpAttr{};
      qp.encapsulation.reset();
      qp.comm_est_due = qp.sq_drained_due = false;
      timers.cancel(qp);
      unmark_ready(qp);
      purge_completions(qp);
      break;
    case QpState::init:
      break;
    case QpState::rtr:
      qp.responder.activate(connection_of(qp), responder_config(qp));
      qp.comm_est_due = true;
      break;
    case QpState::rts:
      qp.comm_est_due = qp.sq_drained_due = false;
      qp.responder.reconfigure(responder_config(qp));
      if (from == QpState::rtr) {
        qp.requester.activate(connection_of(qp), requester_config(qp, config));
      } else {
        qp.requester.reconfigure(requester_config(qp, config));
      }
      qp.requester.set_draining(false);
      mark_ready(qp);
      break;
    case QpState::sqd:
      qp.responder.reconfigure(responder_config(qp));
      qp.requester.reconfigure(requester_config(qp, config));
      qp.requester.set_draining(true);
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
  qp.requester.flush(transport);
  qp.responder.flush(transport);
  qp.comm_est_due = qp.sq_drained_due = false;
  fail_users_of_overflowed_cqs(now);
}

void Nic::Impl::fail(const ib::TransportEnv& env, Qp& qp, ib::QpFailure failure) {
  const QpState from = qp.attr.state;
  if (failure == ib::QpFailure::none || from == QpState::err) {
    return;
  }
  enter_error(env.now, qp);
  switch (failure) {
    case ib::QpFailure::none:
      break;
    case ib::QpFailure::told_by_completion:
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
  if (qp.sq_drained_due && qp.requester.is_drained()) {
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
