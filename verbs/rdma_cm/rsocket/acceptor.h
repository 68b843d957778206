// The thread that makes connections for sockets that listen, while the program does something else.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <vector>

#include "verbs/event_fd.h"
#include "verbs/rdma_cm/abi.h"

namespace verbena::rsocket {

using rdma_cm::Errno;

class StreamSocket;

/// There is one in a process. Any thread may call any function.
class Acceptor {
 public:
  [[nodiscard]] static Acceptor& instance();

  /// The thread starts with the first socket.
  [[nodiscard]] Errno add(std::shared_ptr<StreamSocket> socket);
  /// Of any socket, also of one that doesn't listen.
  void remove(const StreamSocket& socket);

 private:
  Acceptor() = default;
  [[nodiscard]] Errno start();
  static void* thread_entry(void* self);
  void thread_main();

  std::mutex mutex_;
  std::vector<std::shared_ptr<StreamSocket>> sockets_;
  std::unique_ptr<verbs::EventFd> changed_;
  /// The process that the thread is in: children of fork() don't have it.
  pid_t process_ = 0;
};

}  // namespace verbena::rsocket
