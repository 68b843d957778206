// Fetching events: what remains to be done for each is done here, in the program's thread, and then
// the program is told.

#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/cm_id.h"
#include "verbs/rdma_cm/fetched_event.h"
#include "verbs/rdma_cm/library.h"

namespace verbena::rdma_cm {

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

std::string peer_text(CmId& id) {
  return fmt::format("port {} of {}", port_of(id.destination()), text_of(id.destination()));
}

namespace {

void tell_joined(const QueuedEvent& queued, CmId& id, FetchedEvent& event) {
  event.status = -attach(id, *queued.multicast);
  event.event = event.status == 0 ? RDMA_CM_EVENT_MULTICAST_JOIN : RDMA_CM_EVENT_MULTICAST_ERROR;
  event.param.ud.ah_attr = address_of_peer(id, queued.multicast->group);
  event.param.ud.qp_num = to_value(qpn_multicast);
  event.param.ud.qkey = to_value(id.qkey);
  event.param.ud.private_data = queued.multicast->context;
}

/// What an event means for its identifier. False if the program needn't hear of it.
bool act_on(const QueuedEvent& queued, CmId& id, FetchedEvent& event) {
  if (id.device != nullptr) {
    id.manager().act_on(queued, id, event);
  }
  switch (queued.type) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      return queued.owner->synchronous ? migrate(id, nullptr) == 0 : true;
    case RDMA_CM_EVENT_ESTABLISHED:
      id.state = IdState::connected;
      return true;
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_DISCONNECTED:
      id.state = IdState::disconnected;
      return true;
    case RDMA_CM_EVENT_MULTICAST_JOIN:
      tell_joined(queued, id, event);
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
  return guarded([&] {
    ChannelReader reader(channel);
    return get_event(reader.channel(), *event);
  });
}

VERBENA_EXPORT int rdma_ack_cm_event(rdma_cm_event* base) {
  if (base == nullptr) {
    return status(EINVAL);
  }
  const std::unique_ptr<FetchedEvent> event(static_cast<FetchedEvent*>(base));
  acknowledge(*event->owner, event->multicast);
  return 0;
}
