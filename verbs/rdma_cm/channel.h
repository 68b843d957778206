// An event channel: a descriptor that is readable while events wait, and the events.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <variant>
#include <vector>

#include "proto/ib_bth/cm/agent.h"
#include "verbs/event_fd.h"
#include "verbs/rdma_cm/abi.h"

namespace verbena::rdma_cm {

struct CmId;
struct Multicast;

/// What MPA's start frames say, in the view of the end that hears it.
struct StreamNews {
  std::vector<std::byte> private_data;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
};

/// What the peer of a connection says with an event; nothing, or in the words of the kind of
/// device.
using PeerNews = std::variant<std::monostate, ib::cm::Message, StreamNews>;

/// An event before a program has fetched it.
struct QueuedEvent {
  /// Whose it is: destroying that identifier drops it, and waits for its acknowledgement.
  CmId* owner = nullptr;
  rdma_cm_event_type type{};
  int status = 0;
  /// Of connection requests: the connection's own identifier.
  CmId* fresh = nullptr;
  PeerNews news;
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
  /// Threads inside of rdma_get_cm_event(), and whether the channel outlives its end for them.
  unsigned readers = 0;
  bool is_closed = false;
};

/// Ends a channel. Threads that read it stay in it for ever, as they do in the kernel's, which
/// closing a descriptor doesn't wake; the channel's memory and descriptor stay with them.
struct ChannelCloser {
  void operator()(EventChannel* channel) const;
};

using OwnedChannel = std::unique_ptr<EventChannel, ChannelCloser>;

/// Null if the process is out of descriptors.
[[nodiscard]] OwnedChannel open_channel();

/// Keeps a channel in being while a thread waits in it.
///
/// Programs end their channel while another thread is on its way back into rdma_get_cm_event()
/// (rping's does so after each acknowledgement). Whether that thread or the end comes first is
/// chance, so both must look alike: a thread that comes too late waits for ever, too, instead of
/// getting at memory that is gone and a descriptor that may be somebody else's by now.
class ChannelReader {
 public:
  explicit ChannelReader(rdma_event_channel* channel);
  ~ChannelReader();
  ChannelReader(const ChannelReader&) = delete;
  ChannelReader& operator=(const ChannelReader&) = delete;

  [[nodiscard]] EventChannel& channel() { return channel_; }

 private:
  EventChannel& channel_;
};

}  // namespace verbena::rdma_cm
