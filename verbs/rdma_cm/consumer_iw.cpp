// What an iWARP device tells of its connections becomes events of identifiers. Called under the
// device's lock: nothing here calls a queue pair or a device.

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/cm_id.h"
#include "verbs/rdma_cm/library.h"
#include "verbs/rdma_cm/manager_iw.h"

namespace verbena::rdma_cm {

namespace {

using ports::IwarpEvent;

/// Programs are told depths in 8 bits.
std::uint8_t told_depth(std::uint16_t depth) {
  return static_cast<std::uint8_t>(std::min<std::uint16_t>(depth, 0xFF));
}

std::vector<std::byte> private_data_of(const IwarpEvent& event) {
  return {event.private_data.begin(), event.private_data.end()};
}

/// Linux (6.1, with siw) has the two depths the other way round here than rdma_connect(3) has.
StreamNews agreed(const IwarpEvent& event) {
  return {.private_data = private_data_of(event),
          .responder_resources = told_depth(event.depths.ird),
          .initiator_depth = told_depth(event.depths.ord)};
}

}  // namespace

std::uintptr_t IwManager::on_iwarp_event(const IwarpEvent& event) {
  const std::lock_guard guard(library_mutex());
  CmId& id = CmId::of_cookie(event.cookie);
  if (event.kind != IwarpEvent::Kind::request) {
    id.stream_id = event.id;
  }
  switch (event.kind) {
    case IwarpEvent::Kind::request:
      return on_request(id, event);
    case IwarpEvent::Kind::established:
      // Now and then another than was bound; see IwarpEvent::local.
      set_port(id.source(), port_of(*event.local.get()));
      id.push(RDMA_CM_EVENT_ESTABLISHED, 0, agreed(event));
      break;
    case IwarpEvent::Kind::rejected:
      id.push(RDMA_CM_EVENT_REJECTED, event.status, agreed(event));
      break;
    case IwarpEvent::Kind::unreachable:
      id.push(RDMA_CM_EVENT_UNREACHABLE, event.status);
      break;
    case IwarpEvent::Kind::failed:
      id.push(RDMA_CM_EVENT_CONNECT_ERROR, event.status);
      break;
    case IwarpEvent::Kind::disconnected:
      id.push(RDMA_CM_EVENT_DISCONNECTED);
      break;
  }
  return 0;
}

std::uintptr_t IwManager::on_request(CmId& listener, const IwarpEvent& event) {
  if (listener.requests_waiting >= listener.backlog) {
    return 0;
  }
  auto fresh =
      make_requested(listener, device_, gid_of(*event.local.get()), gid_of(*event.remote.get()));
  fresh->stream_id = event.id;
  copy_address(fresh->route.addr.src_storage, *event.local.get());
  copy_address(fresh->route.addr.dst_storage, *event.remote.get());
  // What one end may start, the other has to answer. A peer that doesn't say may do all we can.
  const iwarp::ReadDepths peer = event.peer_depths.value_or(
      iwarp::ReadDepths{device_.initiator_depth_max, device_.responder_resources_max});
  fresh->agreement.responder_resources = told_depth(peer.ord);
  fresh->agreement.initiator_depth = told_depth(peer.ird);
  return queue_request(listener, std::move(fresh),
                       StreamNews{.private_data = private_data_of(event),
                                  .responder_resources = told_depth(peer.ord),
                                  .initiator_depth = told_depth(peer.ird)});
}

}  // namespace verbena::rdma_cm
