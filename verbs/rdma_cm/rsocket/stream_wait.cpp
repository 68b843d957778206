// Waiting for what comes: one thread sleeps on the completion channel, the others on what it finds.

#include <poll.h>

#include "verbs/rdma_cm/rsocket/kernel.h"
#include "verbs/rdma_cm/rsocket/stream.h"

namespace verbena::rsocket {

namespace {

/// A thread in rpoll() may take a notification away; so nobody sleeps longer than this without a
/// look of his own.
constexpr Patience::Milliseconds sleep_max(200);

}  // namespace

Errno Stream::wait(std::unique_lock<std::mutex>& lock, const Patience& patience,
                   const std::function<bool()>& test) {
  for (;;) {
    process();
    if (test()) {
      return 0;
    }
    if (patience.is_over()) {
      return EAGAIN;
    }
    ibv_req_notify_cq(cq_, 0);
    process();
    if (test()) {
      return 0;
    }
    if (const Errno error = sleep(lock, patience)) {
      return error;
    }
  }
}

Errno Stream::sleep(std::unique_lock<std::mutex>& lock, const Patience& patience) {
  const Patience::Milliseconds time = patience.left(sleep_max);
  if (someone_sleeps_) {
    looked_.wait_for(lock, time);
    return 0;
  }
  someone_sleeps_ = true;
  lock.unlock();
  std::array<pollfd, 2> wait_for{{{.fd = channel_->fd, .events = POLLIN, .revents = 0},
                                  {.fd = id_.channel->fd, .events = POLLIN, .revents = 0}}};
  const Errno error = kernel::poll(wait_for, static_cast<int>(time.count()));
  if (wait_for[0].revents != 0) {
    disarm();
  }
  if (wait_for[1].revents != 0) {
    take_cm_events();
  }
  lock.lock();
  someone_sleeps_ = false;
  looked_.notify_all();
  return error;
}

void Stream::disarm() {
  // Another thread may have been faster: this must not block.
  std::array<pollfd, 1> look{{{.fd = channel_->fd, .events = POLLIN, .revents = 0}}};
  if (kernel::poll(look, 0) != 0 || look[0].revents == 0) {
    return;
  }
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_, &cq, &context) == 0) {
    ibv_ack_cq_events(cq, 1);
  }
}

void Stream::arm() {
  const std::lock_guard guard(mutex_);
  ibv_req_notify_cq(cq_, 0);
}

short Stream::ready() {
  const std::lock_guard guard(mutex_);
  process();
  looked_.notify_all();
  int events = 0;
  if (has_data() || !readable_) {
    events |= POLLIN;
  }
  if (can_send() || !writable_) {
    events |= POLLOUT;
  }
  // What has come can still be read: the end comes after it.
  if (!connected_ && !has_data()) {
    events |= error_ != 0 ? POLLERR : POLLHUP;
  }
  return static_cast<short>(events);
}

}  // namespace verbena::rsocket
