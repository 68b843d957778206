#include "verbs/async.h"

#include <pthread.h>

#include "ports/log.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/qp.h"
#include "verbs/real_verbs.h"
#include "verbs/srq.h"

namespace verbena::verbs {

void AsyncQueue::push(const ibv_async_event& event, std::uint32_t* delivered) noexcept {
  {
    const std::lock_guard guard(mutex_);
    if (count_ == async_events_max) {
      if (!std::exchange(overflow_reported_, true)) {
        ports::report(
            "1024 asynchronous events wait to be fetched with ibv_get_async_event(); more are lost "
            "until the program fetches some");
      }
      return;
    }
    entries_[(first_ + count_) % async_events_max] = {event, delivered};
    ++count_;
  }
  event_fd_.signal();
}

Errno AsyncQueue::pop(ibv_async_event& event) {
  for (;;) {
    if (const Errno error = event_fd_.wait()) {
      return error;
    }
    const std::lock_guard guard(mutex_);
    if (count_ == 0) {
      continue;  // The event of this token was of an object that has been destroyed.
    }
    const Entry& entry = entries_[first_];
    event = entry.event;
    if (entry.delivered != nullptr) {
      ++*entry.delivered;
    }
    first_ = (first_ + 1) % async_events_max;
    --count_;
    return 0;
  }
}

std::uint32_t AsyncQueue::forget(const std::uint32_t* delivered) noexcept {
  const std::lock_guard guard(mutex_);
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < count_; ++i) {
    const Entry& entry = entries_[(first_ + i) % async_events_max];
    if (entry.delivered != delivered) {
      entries_[(first_ + kept) % async_events_max] = entry;
      ++kept;
    }
  }
  event_fd_.take_back(count_ - kept);
  count_ = kept;
  return *delivered;
}

}  // namespace verbena::verbs

using namespace verbena::verbs;

VERBENA_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  if (is_real(context)) {
    return real_verbs().ibv_get_async_event(context, event);
  }
  if (Context::of(context).is_dead()) {
    return minus_one(EIO);  // The descriptor is shared with the parent, whose events these are.
  }
  const Errno error = Context::of(context).async.pop(*event);
  return error == 0 ? 0 : minus_one(error);
}

namespace {

/// `base` is what the event is about, an object of ours or of a real device.
template <class Object, class Base>
void acknowledge(ibv_async_event* event, Base* base) {
  if (is_real(base)) {
    real_verbs().ibv_ack_async_event(event);
    return;
  }
  Object::of(base).acknowledge_async_event();
}

}  // namespace

VERBENA_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
      acknowledge<CompletionQueue>(event, event->element.cq);
      return;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      acknowledge<QueuePair>(event, event->element.qp);
      return;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
    case IBV_EVENT_SRQ_ERR:
      acknowledge<SharedReceiveQueue>(event, event->element.srq);
      return;
    case IBV_EVENT_WQ_FATAL:
      if (is_real(event->element.wq)) {  // Ours have no such queues.
        real_verbs().ibv_ack_async_event(event);
      }
      return;
    default:
      return;  // Events of the port and the device have no object that waits.
  }
}
