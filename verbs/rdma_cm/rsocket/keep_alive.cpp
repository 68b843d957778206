#include "verbs/rdma_cm/rsocket/keep_alive.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ports/own_thread.h"
#include "verbs/rdma_cm/rsocket/kernel.h"
#include "verbs/rdma_cm/rsocket/stream_socket.h"

namespace verbena::rsocket {

KeepAlive& KeepAlive::instance() {
  // Never destroyed: the thread goes on until the process ends.
  static KeepAlive& keep_alive = *new KeepAlive;
  return keep_alive;
}

Errno KeepAlive::add(std::weak_ptr<StreamSocket> socket, std::chrono::seconds interval) {
  const std::lock_guard guard(mutex_);
  if (process_ != ::getpid()) {
    if (const Errno error = start()) {
      return error;
    }
  }
  remove(socket);  // One whose interval changes is asked once, not twice.
  entries_.push_back({std::move(socket), interval, Patience::Clock::now() + interval});
  changed_->signal();
  return 0;
}

Errno KeepAlive::start() {
  auto changed = std::make_unique<verbs::EventFd>();
  if (changed->fd() < 0) {
    return EMFILE;
  }
  changed_ = std::move(changed);
  entries_.clear();  // Of a parent process: they are dead here.
  const auto thread = ports::start_own_thread("verbena-alive", &KeepAlive::thread_entry, this);
  if (!thread) {
    return thread.error();
  }
  pthread_detach(*thread);
  process_ = ::getpid();
  return 0;
}

void KeepAlive::remove(const std::weak_ptr<StreamSocket>& socket) {
  std::erase_if(entries_, [&](const Entry& each) {
    return !each.socket.owner_before(socket) && !socket.owner_before(each.socket);
  });
}

std::vector<std::weak_ptr<StreamSocket>> KeepAlive::take_due(int& sleep_ms) {
  const std::lock_guard guard(mutex_);
  changed_->take_back(entries_.size() + 1);
  const auto now = Patience::Clock::now();
  auto next = Patience::Clock::time_point::max();
  std::vector<std::weak_ptr<StreamSocket>> due;
  for (Entry& entry : entries_) {
    if (entry.next <= now) {
      due.push_back(entry.socket);
      entry.next = now + entry.interval;
    }
    next = std::min(next, entry.next);
  }
  sleep_ms = entries_.empty()
                 ? -1
                 : static_cast<int>(std::chrono::ceil<Patience::Milliseconds>(next - now).count());
  return due;
}

void* KeepAlive::thread_entry(void* self) {
  static_cast<KeepAlive*>(self)->thread_main();
  return nullptr;
}

void KeepAlive::thread_main() {
  for (;;) {
    int sleep_ms = 0;
    // Without the lock: a socket has its own, and may go with the reference that is taken here.
    for (const auto& each : take_due(sleep_ms)) {
      const std::shared_ptr<StreamSocket> socket = each.lock();
      if (!socket || !socket->send_keep_alive()) {
        const std::lock_guard guard(mutex_);
        remove(each);
      }
    }
    std::array<pollfd, 1> wait{{{.fd = changed_->fd(), .events = POLLIN, .revents = 0}}};
    static_cast<void>(kernel::poll(wait, sleep_ms));
  }
}

}  // namespace verbena::rsocket
