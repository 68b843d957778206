#include "verbs/rdma_cm/rsocket/acceptor.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>

#include "ports/own_thread.h"
#include "verbs/rdma_cm/rsocket/kernel.h"
#include "verbs/rdma_cm/rsocket/stream_socket.h"

namespace verbena::rsocket {

Acceptor& Acceptor::instance() {
  // Never destroyed: the thread goes on until the process ends.
  static Acceptor& acceptor = *new Acceptor;
  return acceptor;
}

Errno Acceptor::add(std::shared_ptr<StreamSocket> socket) {
  const std::lock_guard guard(mutex_);
  if (process_ != ::getpid()) {
    if (const Errno error = start()) {
      return error;
    }
  }
  sockets_.push_back(std::move(socket));
  changed_->signal();
  return 0;
}

void Acceptor::remove(const StreamSocket& socket) {
  const std::lock_guard guard(mutex_);
  std::erase_if(sockets_, [&](const auto& each) { return each.get() == &socket; });
  if (changed_) {
    changed_->signal();
  }
}

Errno Acceptor::start() {
  auto changed = std::make_unique<verbs::EventFd>();
  if (changed->fd() < 0) {
    return EMFILE;
  }
  changed_ = std::move(changed);
  sockets_.clear();  // Of a parent process: they are dead here.
  const auto thread = ports::start_own_thread("verbena-accept", &Acceptor::thread_entry, this);
  if (!thread) {
    return thread.error();
  }
  pthread_detach(*thread);
  process_ = ::getpid();
  return 0;
}

void* Acceptor::thread_entry(void* self) {
  static_cast<Acceptor*>(self)->thread_main();
  return nullptr;
}

void Acceptor::thread_main() {
  for (;;) {
    std::vector<std::shared_ptr<StreamSocket>> sockets;
    std::vector<pollfd> wait;
    {
      const std::lock_guard guard(mutex_);
      changed_->take_back(sockets_.size() + 1);
      sockets = sockets_;
      wait.push_back({.fd = changed_->fd(), .events = POLLIN, .revents = 0});
    }
    for (const auto& socket : sockets) {
      wait.push_back({.fd = socket->requests_fd(), .events = POLLIN, .revents = 0});
    }
    static_cast<void>(kernel::poll(wait, -1));
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      if (wait[i + 1].revents != 0) {
        sockets[i]->take_requests();
      }
    }
  }
}

}  // namespace verbena::rsocket
