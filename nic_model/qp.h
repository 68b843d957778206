// A queue pair as the Nic holds it: attributes, the two halves of its transport, and its places in
// the scheduler's and the timer's queues. Private to nic_model/.
//
// What differs between the services is in Transport; qp_transport.h names what the Nic does with
// all of them.
#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <optional>
#include <variant>

#include "base/ids.h"
#include "base/time.h"
#include "nic_model/address.h"
#include "nic_model/nic.h"
#include "nic_model/pacer.h"
#include "nic_model/srq.h"
#include "nic_model/types.h"
#include "nic_model/xrcd.h"
#include "proto/ib_bth/rc_requester.h"
#include "proto/ib_bth/rc_responder.h"
#include "proto/ib_bth/uc_requester.h"
#include "proto/ib_bth/uc_responder.h"
#include "proto/ib_bth/ud_requester.h"
#include "proto/ib_bth/ud_responder.h"
#include "proto/iwarp/stream_qp.h"
#include "proto/packet_sink.h"
#include "proto/roce/encap.h"

namespace verbena::nic {

[[nodiscard]] inline RecvSource receives_of(const QpInitAttr& init) {
  return init.srq != nullptr ? RecvSource(init.srq->queue)
                             : RecvSource(init.caps.recv_wr_max, init.caps.recv_sge_max);
}

/// The two state machines of a queue pair.
template <class Requester, class Responder>
struct Halves {
  Halves(Qpn number, const QpInitAttr& init)
      : requester(number,
                  {.wr_max = init.caps.send_wr_max,
                   .sge_max = init.caps.send_sge_max,
                   .inline_bytes_max = init.caps.inline_bytes_max},
                  init.signal_all, *init.send_cq),
        responder(number, receives_of(init), *init.recv_cq) {}

  Requester requester;
  Responder responder;
};
using RcHalves = Halves<ib::RcRequester, ib::RcResponder>;
using UcHalves = Halves<ib::UcRequester, ib::UcResponder>;
using UdHalves = Halves<ib::UdRequester, ib::UdResponder>;

/// READs and atomics of a peer that an iWARP queue pair keeps room for, whatever a connection
/// agrees on.
inline constexpr std::uint16_t stream_ird_max = 32;

/// A queue pair over a byte stream (iWARP): both halves in one.
struct Stream {
  Stream(Qpn number, const QpInitAttr& init, bool extensions)
      : qp(number,
           {.send = {.wr_max = init.caps.send_wr_max,
                     .sge_max = init.caps.send_sge_max,
                     .inline_bytes_max = init.caps.inline_bytes_max},
            .ird_max = stream_ird_max,
            .extensions = extensions},
           init.signal_all, receives_of(init), *init.send_cq, *init.recv_cq) {}

  /// A connection that has not been asked to close.
  [[nodiscard]] bool wants_close() const { return is_open && (is_abandoned || qp.wants_close()); }

  iwarp::StreamQp qp;
  /// The owner of the Nic has a connection for it, and has not been asked to close it.
  bool is_open = false;
  /// The queue pair has no use for the connection any more, whatever its state.
  bool is_abandoned = false;
  /// It begins to end in order, and gets a turn even if it has nothing to send: so the owner, who
  /// is asked for its stream, learns that.
  bool is_turn_due = false;
};
using Transport = std::variant<RcHalves, UcHalves, UdHalves, Stream>;

/// What decides which transport a queue pair gets, beside its type.
struct TransportChoice {
  Technology technology = Technology::roce;
  /// See DeviceProfile::has_rdmap_extensions.
  bool rdmap_extensions = false;
};
[[nodiscard]] Transport make_transport(Qpn number, const QpInitAttr& init, TransportChoice choice);
/// What the queues hold, which may be more than was asked for.
[[nodiscard]] QpCaps caps_of(const Transport& transport, const QpInitAttr& init);

class Qp {
 public:
  Qp(Qpn number, Pd& pd_of_qp, const QpInitAttr& init, TransportChoice choice,
     Counters& port_counters)
      : qpn(number),
        pd(pd_of_qp),
        type(init.type),
        send_cq(*init.send_cq),
        recv_cq(*init.recv_cq),
        srq(init.srq),
        xrcd(init.xrcd),
        cookie(init.cookie),
        transport(make_transport(number, init, choice)),
        caps(caps_of(transport, init)),
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
  Srq* const srq;
  Xrcd* const xrcd;
  const std::uintptr_t cookie;

  /// What modify_qp() set; attr.state is the state.
  QpAttr attr;
  Transport transport;
  const QpCaps caps;
  /// The part of the port's counters that is this queue pair's.
  Counters counters;

  /// The way to the peer of a connection, from RTR on.
  std::optional<roce::Encapsulation> encapsulation;
  FrameRoute route;
  /// The second way, if it has been loaded; PATH_MIG_ERR was raised for it.
  std::optional<Way> alternate;
  bool path_mig_err_told = false;

  /// See own_multicast.h.
  bool blocks_own_multicast = false;

  /// Of the send queue; answers to the peer are not held back.
  Pacer pacer;
  /// A half of the transport that had no turn because the other's did not come to its end.
  enum class Half : std::uint8_t { none, requests, answers };
  Half waiting = Half::none;

  /// Each is raised once: COMM_EST after RTR, SQ_DRAINED after SQD asked for it.
  bool comm_est_due = false;
  bool sq_drained_due = false;
  /// QP_LAST_WQE_REACHED was raised, once per life.
  bool last_wqe_told = false;

  /// In the scheduler's list of those that have something to send.
  boost::intrusive::list_member_hook<> ready_hook;
  /// In the timer's set, at `timer_at`, which is never later than the next deadline.
  boost::intrusive::set_member_hook<> timer_hook;
  Time timer_at = time_never;
};

}  // namespace verbena::nic
