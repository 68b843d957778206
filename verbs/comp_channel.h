// A completion channel: tells a program that sleeps which of its CQs has something.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <mutex>

#include "verbs/abi.h"
#include "verbs/event_fd.h"

namespace verbena::verbs {

struct CompletionQueue;

/// A CQ's place among those with unread events. It is in the list while it has any, so that a
/// notification needs no memory.
struct ChannelEntry
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>> {
  // Under the channel's lock.
  std::uint32_t unread_events = 0;
  std::uint32_t delivered_events = 0;
};

struct CompChannel : ibv_comp_channel {
  [[nodiscard]] static CompChannel& of(ibv_comp_channel* channel) {
    return static_cast<CompChannel&>(*channel);
  }

  // The public `refcnt` counts the CQs of this channel.
  void add_user();
  void remove_user();

  void push(CompletionQueue& cq) noexcept;
  /// Takes an event, round robin over the CQs; blocks as EventFd::wait() does.
  [[nodiscard]] Result<CompletionQueue*, Errno> pop();
  /// Drops the unread events of `cq`. Returns how many events were fetched in all.
  std::uint32_t forget(CompletionQueue& cq) noexcept;

  EventFd event_fd;
  std::mutex mutex;
  boost::intrusive::list<ChannelEntry> waiting;
};

}  // namespace verbena::verbs
