// Fetching events: what remains to be done for each is done here, in the program's thread, and then
// the program is told.

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>

#include "ports/log.h"
#include "proto/ib_bth/cm/reject_reason.h"
#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/cm_id.h"
#include "verbs/rdma_cm/library.h"

namespace verbena::rdma_cm {

namespace {

/// An event that a program has fetched.
struct FetchedEvent : rdma_cm_event {
  CmId* owner = nullptr;
  Multicast* multicast = nullptr;
  std::array<std::byte, 256> private_data{};

  template <std::size_t size>
  void set_private_data(const ib::cm::PrivateData<size>& from, std::size_t skip = 0) {
    std::memcpy(private_data.data(), from.data() + skip, size - skip);
    param.conn.private_data = private_data.data();
    param.conn.private_data_len = static_cast<std::uint8_t>(size - skip);
  }
};
static_assert(offsetof(rdma_conn_param, private_data) == offsetof(rdma_ud_param, private_data));
static_assert(offsetof(rdma_conn_param, private_data_len) ==
              offsetof(rdma_ud_param, private_data_len));

ibv_ah_attr address_of_peer(const CmId& id, const Gid& gid) {
  ibv_ah_attr attr{};
  std::memcpy(attr.grh.dgid.raw, gid.bytes.data(), gid.bytes.size());
  attr.grh.sgid_index = id.path.gid_index;
  attr.grh.hop_limit = id.path.hop_limit;
  attr.grh.traffic_class = id.path.traffic_class;
  attr.is_global = 1;
  attr.port_num = id.port_num;
  return attr;
}

void tell_request(FetchedEvent& event, const ib::cm::Req& req) {
  event.set_private_data(req.private_data, ib::cm::ip_header_bytes);
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
    event.set_private_data(sidr_req->private_data, ip_header_bytes);
  } else if (const auto* sidr_rep = std::get_if<SidrRep>(&message)) {
    tell_datagram_peer(event, id, *sidr_rep);
  }
}

/// The peer has accepted: with a queue pair of ours the connection is made, without one the program
/// has to do it (rdma_establish()).
void finish_connection(CmId& id, FetchedEvent& event, const ib::cm::Rep& rep) {
  id.agreement.remote_qpn = rep.queue_pair();
  id.agreement.send_psn = rep.starting_psn;
  id.agreement.rnr_retry_count = rep.rnr_retry_count;
  id.agreement.responder_resources =
      std::min(id.agreement.responder_resources, rep.initiator_depth);
  id.agreement.initiator_depth = std::min(id.agreement.initiator_depth, rep.responder_resources);
  if (id.qp == nullptr) {
    return;
  }
  const Errno error = make_qp_ready(id);
  const bool told = error == 0 && id.device->cm->ready(id.comm_id, {});
  if (told) {
    event.event = RDMA_CM_EVENT_ESTABLISHED;
    id.state = IdState::connected;
    return;
  }
  make_qp_fail(id);
  id.device->cm->reject(id.comm_id, ib::cm::RejectReason::consumer_defined, {}, {});
  event.event = RDMA_CM_EVENT_CONNECT_ERROR;
  event.status = error != 0 ? -error : -ECONNRESET;
}

/// "port 7174 of 10.0.0.2".
std::string peer_text(CmId& id) {
  return fmt::format("port {} of {}", port_of(id.destination()), text_of(id.destination()));
}

/// Tells the user at once, and whoever asks `verbena doctor` later.
void tell_failure(CmId& id, const std::string& sentence) {
  ports::report(sentence);
  id.device->cm->note_failure(sentence);
}

void say_nobody_listens(CmId& id) {
  std::string others;
  if (id.device->cm->is_on_this_host(id.path.remote)) {
    const auto space = to_value(ib::cm::service_id_of(id.port_space(), 0));
    for (const std::string& each : id.device->cm->listeners(space)) {
      others += (others.empty() ? "; listening: " : ", ") + each;
    }
    others = others.empty() ? "; nobody listens on this host" : others;
  }
  tell_failure(id, fmt::format("nobody listens on {} ({}){}", peer_text(id),
                               describe(ib::cm::RejectReason::invalid_service_id), others));
}

void say_no_answer(CmId& id) {
  tell_failure(id,
               fmt::format("no answer from {}: {}", peer_text(id),
                           id.device->cm->is_on_this_host(id.path.remote)
                               ? "the process that listens there is stopped, or just died"
                               : "the host is down or runs no RDMA device with that address, or "
                                 "the network drops UDP port 4791 (a firewall?)"));
}

void note_rejection(CmId& id, const QueuedEvent& queued) {
  id.state = IdState::disconnected;
  make_qp_fail(id);
  const ib::cm::RejectReason reason{static_cast<std::uint16_t>(queued.status)};
  if (reason == ib::cm::RejectReason::invalid_service_id) {
    say_nobody_listens(id);
  } else {
    // It may well be what the program expects: nothing for standard error.
    id.device->cm->note_failure(
        fmt::format("{} refused the connection ({})", peer_text(id), describe(reason)));
  }
}

/// What an event means for its identifier. False if the program needn't hear of it.
bool act_on(const QueuedEvent& queued, CmId& id, FetchedEvent& event) {
  switch (queued.type) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      return queued.owner->synchronous ? migrate(id, nullptr) == 0 : true;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      finish_connection(id, event, std::get<ib::cm::Rep>(*queued.message));
      return true;
    case RDMA_CM_EVENT_ESTABLISHED:
      id.state = IdState::connected;
      return true;
    case RDMA_CM_EVENT_REJECTED:
      note_rejection(id, queued);
      return true;
    case RDMA_CM_EVENT_UNREACHABLE:
      if (id.is_datagram() && queued.status > 0) {
        say_nobody_listens(id);
      } else {
        say_no_answer(id);
      }
      id.state = IdState::disconnected;
      return true;
    case RDMA_CM_EVENT_DISCONNECTED:
      id.state = IdState::disconnected;
      return true;
    case RDMA_CM_EVENT_MULTICAST_JOIN:
      event.status = -attach(id, *queued.multicast);
      event.event =
          event.status == 0 ? RDMA_CM_EVENT_MULTICAST_JOIN : RDMA_CM_EVENT_MULTICAST_ERROR;
      event.param.ud.ah_attr = address_of_peer(id, queued.multicast->group);
      event.param.ud.qp_num = to_value(qpn_multicast);
      event.param.ud.qkey = to_value(id.qkey);
      event.param.ud.private_data = queued.multicast->context;
      return true;
    default:
      return true;
  }
}

/// The oldest event; blocks as the channel's descriptor is set to.
Errno pop(EventChannel& channel, QueuedEvent& event) {
  for (;;) {
    if (const Errno error = channel.event_fd.wait()) {
      return error;
    }
    const std::lock_guard guard(library_mutex());
    if (channel.events.empty()) {
      continue;  // Its event was taken back.
    }
    event = std::move(channel.events.front());
    channel.events.pop_front();
    ++event.owner->unacknowledged;
    if (event.fresh != nullptr) {
      --event.owner->requests_waiting;
    }
    if (event.multicast != nullptr) {
      ++event.multicast->events;
    }
    return 0;
  }
}

void acknowledge(CmId& owner, Multicast* multicast) {
  const std::lock_guard guard(library_mutex());
  --owner.unacknowledged;
  if (multicast != nullptr) {
    --multicast->events;
  }
  owner.acknowledged.notify_all();
}

Errno get_event(EventChannel& channel, rdma_cm_event*& fetched) {
  for (;;) {
    QueuedEvent queued;
    if (const Errno error = pop(channel, queued)) {
      return error;
    }
    auto event = std::make_unique<FetchedEvent>();
    CmId& id = queued.fresh != nullptr ? *queued.fresh : *queued.owner;
    event->owner = queued.owner;
    event->multicast = queued.multicast;
    event->id = &id;
    event->listen_id = queued.fresh != nullptr ? queued.owner : nullptr;
    event->event = queued.type;
    event->status = queued.status;
    if (queued.message) {
      tell_message(*event, id, *queued.message);
    }
    if (act_on(queued, id, *event)) {
      fetched = event.release();
      return 0;
    }
    acknowledge(*queued.owner, queued.multicast);
  }
}

}  // namespace

Errno CmId::complete() {
  if (!synchronous) {
    return 0;
  }
  if (event != nullptr) {
    rdma_ack_cm_event(event);
    event = nullptr;
  }
  if (const Errno error = get_event(events(), event)) {
    return error;
  }
  if (event->status == 0) {
    return 0;
  }
  if (event->event == RDMA_CM_EVENT_REJECTED) {
    return ECONNREFUSED;
  }
  return event->status < 0 ? -event->status : event->status;
}

}  // namespace verbena::rdma_cm

using namespace verbena::rdma_cm;

VERBENA_EXPORT int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  return guarded([&] { return get_event(EventChannel::of(channel), *event); });
}

VERBENA_EXPORT int rdma_ack_cm_event(rdma_cm_event* base) {
  if (base == nullptr) {
    return status(EINVAL);
  }
  const std::unique_ptr<FetchedEvent> event(static_cast<FetchedEvent*>(base));
  acknowledge(*event->owner, event->multicast);
  return 0;
}
