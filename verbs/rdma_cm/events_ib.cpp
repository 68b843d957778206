// What the events of a RoCE device mean, and what the program is told.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "nic_model/types.h"
#include "ports/device_config.h"
#include "ports/log.h"
#include "proto/ib_bth/cm/reject_reason.h"
#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/cm_id.h"
#include "verbs/rdma_cm/fetched_event.h"
#include "verbs/rdma_cm/manager_ib.h"

namespace verbena::rdma_cm {

namespace {

void tell_request(FetchedEvent& event, const ib::cm::Req& req) {
  event.set_private_data(ByteView(req.private_data).subspan(ib::cm::ip_header_bytes));
  rdma_conn_param& conn = event.param.conn;
  // What one end may start, the other has to answer.
  conn.responder_resources = req.initiator_depth;
  conn.initiator_depth = req.responder_resources;
  conn.flow_control = req.end_to_end_flow_control ? 1 : 0;
  conn.retry_count = req.retry_count;
  conn.rnr_retry_count = req.rnr_retry_count;
  conn.srq = req.srq ? 1 : 0;
  conn.qp_num = to_value(req.local_qpn);
}

void tell_reply(FetchedEvent& event, const ib::cm::Rep& rep) {
  event.set_private_data(rep.private_data);
  rdma_conn_param& conn = event.param.conn;
  conn.responder_resources = rep.initiator_depth;
  conn.initiator_depth = rep.responder_resources;
  conn.flow_control = rep.end_to_end_flow_control ? 1 : 0;
  conn.rnr_retry_count = rep.rnr_retry_count;
  conn.srq = rep.srq ? 1 : 0;
  conn.qp_num = to_value(rep.queue_pair());
}

void tell_datagram_peer(FetchedEvent& event, const CmId& id, const ib::cm::SidrRep& rep) {
  event.set_private_data(rep.private_data);
  event.param.ud.ah_attr = address_of_peer(id, id.path.remote);
  event.param.ud.qp_num = to_value(rep.qpn);
  event.param.ud.qkey = to_value(rep.qkey);
}

void tell_message(FetchedEvent& event, const CmId& id, const ib::cm::Message& message) {
  using namespace ib::cm;
  if (const auto* req = std::get_if<Req>(&message)) {
    tell_request(event, *req);
  } else if (const auto* rep = std::get_if<Rep>(&message)) {
    tell_reply(event, *rep);
  } else if (const auto* rtu = std::get_if<Rtu>(&message)) {
    event.set_private_data(rtu->private_data);
  } else if (const auto* rej = std::get_if<Rej>(&message)) {
    event.set_private_data(rej->private_data);
  } else if (const auto* sidr_req = std::get_if<SidrReq>(&message)) {
    event.set_private_data(ByteView(sidr_req->private_data).subspan(ip_header_bytes));
  } else if (const auto* sidr_rep = std::get_if<SidrRep>(&message)) {
    tell_datagram_peer(event, id, *sidr_rep);
  }
}

}  // namespace

/// The peer has accepted: with a queue pair of ours the connection is made, without one the program
/// has to do it (rdma_establish()).
void IbManager::finish_connection(CmId& id, FetchedEvent& event, const ib::cm::Rep& rep) {
  id.agreement.remote_qpn = rep.queue_pair();
  id.agreement.send_psn = rep.starting_psn;
  id.agreement.rnr_retry_count = rep.rnr_retry_count;
  id.remote_ece = rep.ece();
  id.agreement.responder_resources =
      std::min(id.agreement.responder_resources, rep.initiator_depth);
  id.agreement.initiator_depth = std::min(id.agreement.initiator_depth, rep.responder_resources);
  if (id.qp == nullptr) {
    return;
  }
  const Errno error = make_qp_ready(id);
  const bool told = error == 0 && cm_.ready(id.comm_id, {});
  if (told) {
    event.event = RDMA_CM_EVENT_ESTABLISHED;
    id.state = IdState::connected;
    return;
  }
  make_qp_fail(id);
  cm_.reject(id.comm_id, ib::cm::RejectReason::consumer_defined, {}, {});
  event.event = RDMA_CM_EVENT_CONNECT_ERROR;
  event.status = error != 0 ? -error : -ECONNRESET;
}

/// Tells the user at once, and whoever asks `verbena doctor` later.
void IbManager::tell_failure(const std::string& sentence) {
  ports::report(sentence);
  cm_.note_failure(sentence);
}

void IbManager::say_nobody_listens(CmId& id) {
  std::string others;
  if (cm_.is_on_this_host(id.path.remote)) {
    const auto space = to_value(ib::cm::service_id_of(id.port_space(), 0));
    for (const std::string& each : cm_.listeners(space)) {
      others += (others.empty() ? "; listening: " : ", ") + each;
    }
    others = others.empty() ? "; nobody listens on this host" : others;
  }
  tell_failure(fmt::format("nobody listens on {} ({}){}", peer_text(id),
                           describe(ib::cm::RejectReason::invalid_service_id), others));
}

void IbManager::say_no_answer(CmId& id) {
  tell_failure(fmt::format("no answer from {}: {}", peer_text(id),
                           cm_.is_on_this_host(id.path.remote)
                               ? "the process that listens there is stopped, or just died"
                               : "the host is down or runs no RDMA device with that address, or "
                                 "the network drops UDP port 4791 (a firewall?)"));
}

void IbManager::note_rejection(CmId& id, const QueuedEvent& queued) {
  id.state = IdState::disconnected;
  make_qp_fail(id);
  const ib::cm::RejectReason reason{static_cast<std::uint16_t>(queued.status)};
  if (reason == ib::cm::RejectReason::invalid_service_id) {
    say_nobody_listens(id);
  } else if (reason == ib::cm::RejectReason::invalid_mtu) {
    tell_failure(fmt::format(
        "{} refused the connection ({}): it takes no packets of {} bytes; give both ends the same "
        "MTU, here with {}",
        peer_text(id), describe(reason), nic::mtu_bytes(static_cast<nic::Mtu>(id.path.mtu)),
        ports::env::mtu));
  } else {
    // It may well be what the program expects: nothing for standard error.
    cm_.note_failure(
        fmt::format("{} refused the connection ({})", peer_text(id), describe(reason)));
  }
}

void IbManager::act_on(const QueuedEvent& queued, CmId& id, FetchedEvent& event) {
  const auto* message = std::get_if<ib::cm::Message>(&queued.news);
  if (message != nullptr) {
    tell_message(event, id, *message);
  }
  switch (queued.type) {
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      finish_connection(id, event, std::get<ib::cm::Rep>(*message));
      break;
    case RDMA_CM_EVENT_REJECTED:
      note_rejection(id, queued);
      break;
    case RDMA_CM_EVENT_UNREACHABLE:
      if (id.is_datagram() && queued.status > 0) {
        say_nobody_listens(id);
      } else {
        say_no_answer(id);
      }
      break;
    default:
      break;
  }
}

}  // namespace verbena::rdma_cm
