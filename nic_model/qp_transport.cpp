#include "nic_model/qp_transport.h"

#include <algorithm>

#include "proto/ib_bth/aeth.h"

namespace verbena::nic {

namespace {

ib::Connection connection_of(const Qp& qp) {
  return {.service = service_of(qp.type),
          .dest_qpn = qp.attr.dest_qpn,
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
          .access = qp.attr.access_flags,
          .xrc_domain = qp.xrcd};
}

template <class... Functions>
struct Overload : Functions... {
  using Functions::operator()...;
};

template <class Visitor>
decltype(auto) visit_halves(Qp& qp, Visitor&& visitor) {
  return std::visit(std::forward<Visitor>(visitor), qp.transport);
}
template <class Visitor>
decltype(auto) visit_halves(const Qp& qp, Visitor&& visitor) {
  return std::visit(std::forward<Visitor>(visitor), qp.transport);
}

}  // namespace

Transport make_transport(Qpn number, const QpInitAttr& init, TransportChoice choice) {
  if (choice.technology == Technology::iwarp) {
    return Transport(std::in_place_type<Stream>, number, init, choice.rdmap_extensions);
  }
  switch (init.type) {
    case QpType::uc:
      return Transport(std::in_place_type<UcHalves>, number, init);
    case QpType::ud:
    case QpType::gsi:
      return Transport(std::in_place_type<UdHalves>, number, init);
    case QpType::rc:
    case QpType::xrc_initiator:
    case QpType::xrc_target:
      break;
  }
  return Transport(std::in_place_type<RcHalves>, number, init);
}

QpCaps caps_of(const Transport& transport, const QpInitAttr& init) {
  QpCaps caps = init.caps;
  std::visit(Overload{[&](const Stream& stream) {
                        caps.send_wr_max = stream.qp.limits().wr_max;
                        caps.recv_wr_max = stream.qp.receives().wr_max();
                      },
                      [&](const auto& halves) {
                        caps.send_wr_max = halves.requester.limits().wr_max;
                        caps.recv_wr_max = halves.responder.queue().wr_max();
                      }},
             transport);
  return caps;
}

ib::Service service_of(QpType type) {
  switch (type) {
    case QpType::uc:
      return ib::Service::uc;
    case QpType::ud:
    case QpType::gsi:
      return ib::Service::ud;
    case QpType::xrc_initiator:
    case QpType::xrc_target:
      return ib::Service::xrc;
    case QpType::rc:
      break;
  }
  return ib::Service::rc;
}

void activate_responder(Qp& qp, const NicConfig& config) {
  visit_halves(qp, Overload{[&](RcHalves& rc) {
                              if (qp.type != QpType::xrc_initiator) {
                                rc.responder.activate(connection_of(qp), responder_config(qp));
                              }
                            },
                            [&](UcHalves& uc) {
                              uc.responder.activate(connection_of(qp), qp.attr.rq_psn,
                                                    qp.attr.access_flags);
                            },
                            [&](UdHalves& ud) {
                              ud.responder.activate({.pd = qp.pd.id,
                                                     .qkey = qp.attr.qkey,
                                                     .mtu_bytes = mtu_bytes(config.mtu_max)});
                            },
                            [](Stream&) {}});
}

void activate_requester(Qp& qp, const NicConfig& config) {
  visit_halves(
      qp, Overload{[&](RcHalves& rc) {
                     if (qp.type != QpType::xrc_target) {
                       rc.requester.activate(connection_of(qp), requester_config(qp, config));
                     }
                   },
                   [&](UcHalves& uc) { uc.requester.activate(connection_of(qp), qp.attr.sq_psn); },
                   [&](UdHalves& ud) {
                     ud.requester.activate({.first_psn = qp.attr.sq_psn,
                                            .pd = qp.pd.id,
                                            .qkey = qp.attr.qkey,
                                            .mtu_bytes = mtu_bytes(config.mtu_max)});
                   },
                   [](Stream&) {}});
}

void reconfigure(Qp& qp, const NicConfig& config) {
  visit_halves(qp, Overload{[&](RcHalves& rc) {
                              rc.responder.reconfigure(responder_config(qp));
                              rc.requester.reconfigure(requester_config(qp, config));
                            },
                            [&](UcHalves& uc) { uc.responder.set_access(qp.attr.access_flags); },
                            [&](UdHalves& ud) {
                              ud.responder.set_qkey(qp.attr.qkey);
                              ud.requester.set_qkey(qp.attr.qkey);
                            },
                            [](Stream&) {}});
}

void resume_requester(Qp& qp) {
  visit_halves(qp,
               Overload{[](RcHalves&) {},  // A reliable connection has no SQE.
                        [](Stream&) {}, [](auto& unreliable) { unreliable.requester.resume(); }});
}

void set_draining(Qp& qp, bool draining) {
  visit_halves(
      qp, Overload{[](Stream&) {}, [&](auto& halves) { halves.requester.set_draining(draining); }});
}

void flush_requester(Qp& qp, ib::TransportEnv& env) {
  visit_halves(qp, Overload{[](Stream&) {},  // Both of its queues fail together.
                            [&](auto& halves) { halves.requester.flush(env); }});
}

void flush(Qp& qp, ib::TransportEnv& env) {
  visit_halves(qp, Overload{[&](Stream& stream) {
                              auto lent = stream_env(env);
                              stream.qp.fail(lent);
                            },
                            [&](auto& halves) {
                              halves.requester.flush(env);
                              halves.responder.flush(env);
                            }});
}

void reset(Qp& qp) {
  visit_halves(qp, Overload{[](Stream& stream) {
                              stream.qp.reset();
                              stream.is_abandoned = stream.is_open;
                            },
                            [](auto& halves) {
                              halves.requester.reset();
                              halves.responder.reset();
                            }});
}

Result<void, PostError> post(Qp& qp, ib::TransportEnv& env, const SendWr& wr) {
  return visit_halves(qp, Overload{[&](Stream& stream) {
                                     auto lent = stream_env(env);
                                     return stream.qp.post_send(lent, wr);
                                   },
                                   [&](auto& halves) { return halves.requester.post(wr); }});
}

Result<void, PostError> post(Qp& qp, ib::TransportEnv& env, const RecvWr& wr) {
  return visit_halves(qp, Overload{[&](Stream& stream) {
                                     auto lent = stream_env(env);
                                     return stream.qp.post_recv(lent, wr);
                                   },
                                   [&](auto& halves) { return halves.responder.post(wr); }});
}

bool is_drained(const Qp& qp) {
  return visit_halves(qp,
                      Overload{[](const Stream& stream) { return stream.qp.is_drained(); },
                               [](const auto& halves) { return halves.requester.is_drained(); }});
}

bool wants_transmit(const Qp& qp) {
  return visit_halves(
      qp, Overload{[](const RcHalves& rc) {
                     return rc.responder.wants_transmit() || rc.requester.wants_transmit();
                   },
                   [](const Stream& stream) {
                     return (stream.is_open && !stream.is_abandoned &&
                             (stream.is_turn_due || stream.qp.wants_transmit())) ||
                            stream.wants_close();
                   },
                   [](const auto& unreliable) { return unreliable.requester.wants_transmit(); }});
}

std::size_t room_to_send(const Qp& qp) {
  return visit_halves(qp, Overload{[](const Stream& stream) { return stream.qp.room(); },
                                   [](const auto& halves) { return halves.requester.room(); }});
}

Psn next_send_psn(const Qp& qp) {
  return visit_halves(qp, Overload{[](const Stream&) { return Psn(); },
                                   [](const auto& halves) { return halves.requester.next_psn(); }});
}

std::optional<Psn> expected_psn(const Qp& qp) {
  return visit_halves(qp,
                      Overload{[](const UdHalves&) -> std::optional<Psn> { return std::nullopt; },
                               [](const Stream&) -> std::optional<Psn> { return std::nullopt; },
                               [](const auto& connected) -> std::optional<Psn> {
                                 return connected.responder.expected_psn();
                               }});
}

}  // namespace verbena::nic
