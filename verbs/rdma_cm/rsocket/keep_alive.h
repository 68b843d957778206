// Keepalives (SO_KEEPALIVE): every now and then a connection that may be idle sends a message that
// says nothing, so that a peer's host that is gone is noticed: the queue pair fails when it isn't
// acknowledged.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <vector>

#include "verbs/event_fd.h"
#include "verbs/rdma_cm/abi.h"
#include "verbs/rdma_cm/rsocket/patience.h"

namespace verbena::rsocket {

using rdma_cm::Errno;

class StreamSocket;

/// There is one in a process, with a thread of its own. Any thread may call any function.
class KeepAlive {
 public:
  [[nodiscard]] static KeepAlive& instance();

  /// From now on the socket is asked to send one after each interval, for as long as it wants to.
  /// The thread starts with the first socket.
  [[nodiscard]] Errno add(std::weak_ptr<StreamSocket> socket, std::chrono::seconds interval);

 private:
  struct Entry {
    std::weak_ptr<StreamSocket> socket;
    std::chrono::seconds interval{};
    Patience::Clock::time_point next;
  };

  KeepAlive() = default;
  [[nodiscard]] Errno start();
  static void* thread_entry(void* self);
  void thread_main();
  /// The sockets whose time has come, by then with their next one; and in how long the first of
  /// the others is due, -1 for never.
  [[nodiscard]] std::vector<std::weak_ptr<StreamSocket>> take_due(int& sleep_ms);
  void remove(const std::weak_ptr<StreamSocket>& socket);

  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::unique_ptr<verbs::EventFd> changed_;
  /// The process that the thread is in: children of fork() don't have it.
  pid_t process_ = 0;
};

}  // namespace verbena::rsocket
