// An event channel: a descriptor that is readable while events wait, and the events.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "proto/ib_bth/cm/agent.h"
#include "verbs/event_fd.h"
#include "verbs/rdma_cm/abi.h"

namespace verbena::rdma_cm {

struct CmId;
struct Multicast;

/// An event before a program has fetched it.
struct QueuedEvent {
  /// Whose it is: destroying that identifier drops it, and waits for its acknowledgement.
  CmId* owner = nullptr;
  rdma_cm_event_type type{};
  int status = 0;
  /// Of connection requests: the connection's own identifier.
  CmId* fresh = nullptr;
  std::optional<ib::cm::Message> message;
  Multicast* multicast = nullptr;
};

struct EventChannel : rdma_event_channel {
  EventChannel() : rdma_event_channel{} { fd = event_fd.fd(); }

  [[nodiscard]] static EventChannel& of(rdma_event_channel* channel) {
    return static_cast<EventChannel&>(*channel);
  }

  // Under the library's lock.
  void push(QueuedEvent event);
  /// Takes the events of one identifier away.
  [[nodiscard]] std::vector<QueuedEvent> take_events_of(const CmId& id);

  verbs::EventFd event_fd;
  std::deque<QueuedEvent> events;
};

}  // namespace verbena::rdma_cm
