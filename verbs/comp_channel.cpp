#include "verbs/comp_channel.h"

#include <atomic>

#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/real_verbs.h"

namespace verbena::verbs {

void CompChannel::add_user() { std::atomic_ref(refcnt).fetch_add(1); }

void CompChannel::remove_user() { std::atomic_ref(refcnt).fetch_sub(1); }

void CompChannel::push(CompletionQueue& cq) noexcept {
  {
    const std::lock_guard guard(mutex);
    if (cq.unread_events++ == 0) {
      waiting.push_back(cq);
    }
  }
  event_fd.signal();
}

Result<CompletionQueue*, Errno> CompChannel::pop() {
  for (;;) {
    if (const Errno error = event_fd.wait()) {
      return failed(error);
    }
    const std::lock_guard guard(mutex);
    if (waiting.empty()) {
      continue;  // The event of this token was of a CQ that has been destroyed.
    }
    ChannelEntry& entry = waiting.front();
    waiting.pop_front();
    ++entry.delivered_events;
    if (--entry.unread_events > 0) {
      waiting.push_back(entry);
    }
    return &static_cast<CompletionQueue&>(entry);
  }
}

std::uint32_t CompChannel::forget(CompletionQueue& cq) noexcept {
  const std::lock_guard guard(mutex);
  if (cq.unread_events > 0) {
    waiting.erase(waiting.iterator_to(cq));
    event_fd.take_back(cq.unread_events);
    cq.unread_events = 0;
  }
  return cq.delivered_events;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* base) {
  if (is_real(base)) {
    return real_verbs().ibv_create_comp_channel(base);
  }
  return create_or_null([&]() -> Created<ibv_comp_channel> {
    if (Context::of(base).is_dead()) {
      return failed(EIO);
    }
    auto channel = std::make_unique<CompChannel>();
    if (channel->event_fd.fd() < 0) {
      return failed(EMFILE);
    }
    channel->context = base;
    channel->fd = channel->event_fd.fd();
    channel->refcnt = 0;
    return channel.release();
  });
}

VERBENA_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* base) {
  if (is_real(base)) {
    return real_verbs().ibv_destroy_comp_channel(base);
  }
  CompChannel& channel = CompChannel::of(base);
  if (std::atomic_ref(channel.refcnt).load() > 0) {
    return EBUSY;
  }
  delete &channel;
  return 0;
}

VERBENA_EXPORT int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  if (is_real(channel)) {
    return real_verbs().ibv_get_cq_event(channel, cq, cq_context);
  }
  if (Context::of(channel->context).is_dead()) {
    return minus_one(EIO);  // The descriptor is shared with the parent, whose events these are.
  }
  const auto taken = CompChannel::of(channel).pop();
  if (!taken) {
    return minus_one(taken.error());
  }
  *cq = (*taken)->plain();
  *cq_context = (*taken)->cq_context;
  return 0;
}

VERBENA_EXPORT void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  if (is_real(cq)) {
    real_verbs().ibv_ack_cq_events(cq, count);
    return;
  }
  CompletionQueue::of(cq).acknowledge_events(count);
}
