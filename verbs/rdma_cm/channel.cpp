#include "verbs/rdma_cm/channel.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <unordered_set>

#include "verbs/rdma_cm/library.h"

namespace verbena::rdma_cm {

namespace {

/// The channels that are open; under the library's lock.
std::unordered_set<const rdma_event_channel*>& open_channels() {
  // Never destroyed: threads may outlive main().
  static auto& channels = *new std::unordered_set<const rdma_event_channel*>;
  return channels;
}

[[noreturn]] void wait_for_ever() {
  for (;;) {
    ::pause();
  }
}

}  // namespace

OwnedChannel open_channel() {
  auto channel = std::make_unique<EventChannel>();
  if (channel->fd < 0) {
    return nullptr;
  }
  const std::lock_guard guard(library_mutex());
  open_channels().insert(channel.get());
  return OwnedChannel(channel.release());
}

void ChannelCloser::operator()(EventChannel* channel) const {
  const std::lock_guard guard(library_mutex());
  open_channels().erase(channel);
  channel->is_closed = true;
  if (channel->readers == 0) {
    delete channel;
  }
}

ChannelReader::ChannelReader(rdma_event_channel* channel) : channel_(EventChannel::of(channel)) {
  {
    const std::lock_guard guard(library_mutex());
    if (open_channels().contains(channel)) {
      ++channel_.readers;
      return;
    }
  }
  wait_for_ever();
}

ChannelReader::~ChannelReader() {
  const std::lock_guard guard(library_mutex());
  if (--channel_.readers == 0 && channel_.is_closed) {
    delete &channel_;
  }
}

void EventChannel::push(QueuedEvent event) {
  events.push_back(std::move(event));
  event_fd.signal();
}

std::vector<QueuedEvent> EventChannel::take_events_of(const CmId& id) {
  std::vector<QueuedEvent> taken;
  for (QueuedEvent& event : events) {
    if (event.owner == &id) {
      taken.push_back(std::move(event));
    }
  }
  std::erase_if(events, [&](const QueuedEvent& event) { return event.owner == &id; });
  event_fd.take_back(taken.size());
  return taken;
}

}  // namespace verbena::rdma_cm

using namespace verbena::rdma_cm;

VERBENA_EXPORT rdma_event_channel* rdma_create_event_channel() {
  return verbena::verbs::create_or_null([]() -> verbena::verbs::Created<rdma_event_channel> {
    OwnedChannel channel = open_channel();
    if (!channel) {
      return verbena::verbs::failed(EMFILE);
    }
    return channel.release();
  });
}

VERBENA_EXPORT void rdma_destroy_event_channel(rdma_event_channel* channel) {
  ChannelCloser()(&EventChannel::of(channel));
}

namespace {

constexpr std::array event_names = {
    "RDMA_CM_EVENT_ADDR_RESOLVED",   "RDMA_CM_EVENT_ADDR_ERROR",
    "RDMA_CM_EVENT_ROUTE_RESOLVED",  "RDMA_CM_EVENT_ROUTE_ERROR",
    "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
    "RDMA_CM_EVENT_CONNECT_ERROR",   "RDMA_CM_EVENT_UNREACHABLE",
    "RDMA_CM_EVENT_REJECTED",        "RDMA_CM_EVENT_ESTABLISHED",
    "RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
    "RDMA_CM_EVENT_MULTICAST_JOIN",  "RDMA_CM_EVENT_MULTICAST_ERROR",
    "RDMA_CM_EVENT_ADDR_CHANGE",     "RDMA_CM_EVENT_TIMEWAIT_EXIT",
};

}  // namespace

VERBENA_EXPORT const char* rdma_event_str(rdma_cm_event_type event) {
  const auto index = static_cast<std::size_t>(event);
  return index < event_names.size() ? event_names[index] : "UNKNOWN EVENT";
}
