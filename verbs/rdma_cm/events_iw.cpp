// What the events of an iWARP device mean, and what the program is told.

#include <fmt/format.h>

#include <cerrno>
#include <string>

#include "ports/log.h"
#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/cm_id.h"
#include "verbs/rdma_cm/fetched_event.h"
#include "verbs/rdma_cm/manager_iw.h"

namespace verbena::rdma_cm {

void IwManager::tell_failure(const std::string& sentence) {
  ports::report(sentence);
  iwarp_.note_failure(sentence);
}

void IwManager::note_rejection(CmId& id, int status) {
  make_qp_fail(id);
  if (status == -ECONNREFUSED) {
    tell_failure(fmt::format(
        "nobody listens on {} (TCP: connection refused); the program there must use an iWARP "
        "device as well",
        peer_text(id)));
  } else {
    // It may well be what the program expects: nothing for standard error.
    iwarp_.note_failure(fmt::format("{} refused the connection", peer_text(id)));
  }
}

void IwManager::act_on(const QueuedEvent& queued, CmId& id, FetchedEvent& event) {
  if (const auto* news = std::get_if<StreamNews>(&queued.news)) {
    event.set_private_data(news->private_data);
    event.param.conn.responder_resources = news->responder_resources;
    event.param.conn.initiator_depth = news->initiator_depth;
  }
  switch (queued.type) {
    case RDMA_CM_EVENT_REJECTED:
      note_rejection(id, queued.status);
      break;
    case RDMA_CM_EVENT_UNREACHABLE:
      tell_failure(fmt::format(
          "no answer from {}: the host is down, the network drops it (a firewall?), or who "
          "listens there speaks no iWARP",
          peer_text(id)));
      break;
    case RDMA_CM_EVENT_CONNECT_ERROR:
      tell_failure(
          fmt::format("no agreement with {}: it speaks another protocol, or wants what "
                      "the MPA settings of this device exclude",
                      peer_text(id)));
      break;
    default:
      break;
  }
}

}  // namespace verbena::rdma_cm
