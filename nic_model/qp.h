// A queue pair as the Nic holds it: attributes, the two halves of its transport, and its places in
// the scheduler's and the timer's queues. Private to nic_model/.
#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <optional>

#include "base/ids.h"
#include "base/time.h"
#include "nic_model/nic.h"
#include "nic_model/types.h"
#include "proto/ib_bth/rc_requester.h"
#include "proto/ib_bth/rc_responder.h"
#include "proto/packet_sink.h"
#include "proto/roce/encap.h"

namespace verbena::nic {

class Qp {
 public:
  Qp(Qpn number, Pd& pd_of_qp, const QpInitAttr& init, Counters& port_counters)
      : qpn(number),
        pd(pd_of_qp),
        type(init.type),
        send_cq(*init.send_cq),
        recv_cq(*init.recv_cq),
        cookie(init.cookie),
        requester(number,
                  {.wr_max = init.caps.send_wr_max,
                   .sge_max = init.caps.send_sge_max,
                   .inline_bytes_max = init.caps.inline_bytes_max},
                  init.signal_all, *init.send_cq),
        responder(number, init.caps.recv_wr_max, init.caps.recv_sge_max, *init.recv_cq),
        caps({.send_wr_max = requester.limits().wr_max,
              .recv_wr_max = responder.queue().wr_max(),
              .send_sge_max = init.caps.send_sge_max,
              .recv_sge_max = init.caps.recv_sge_max,
              .inline_bytes_max = init.caps.inline_bytes_max}),
        counters(&port_counters) {}

  /// The port has counted this already.
  void count_received(std::size_t frame_bytes, std::optional<Counter> verdict) {
    counters.add_here(Counter::rcvd_pkts);
    counters.add_here(Counter::rx_bytes, frame_bytes);
    if (verdict) {
      counters.add_here(*verdict);
    }
  }

  const Qpn qpn;
  Pd& pd;
  const QpType type;
  Cq& send_cq;
  Cq& recv_cq;
  const std::uintptr_t cookie;

  /// What modify_qp() set; attr.state is the state.
  QpAttr attr;
  ib::RcRequester requester;
  ib::RcResponder responder;
  const QpCaps caps;
  /// The part of the port's counters that is this queue pair's.
  Counters counters;

  /// The way to the peer, from RTR on.
  std::optional<roce::Encapsulation> encapsulation;
  FrameRoute route;

  /// Each is raised once: COMM_EST after RTR, SQ_DRAINED after SQD asked for it.
  bool comm_est_due = false;
  bool sq_drained_due = false;

  /// In the scheduler's list of those that have something to send.
  boost::intrusive::list_member_hook<> ready_hook;
  /// In the timer's set, at `timer_at`, which is never later than the next deadline.
  boost::intrusive::set_member_hook<> timer_hook;
  Time timer_at = time_never;
};

}  // namespace verbena::nic
