#include "verbs/rdma_cm/rsocket/poll.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "verbs/rdma_cm/rsocket/kernel.h"
#include "verbs/rdma_cm/rsocket/socket.h"

namespace verbena::rsocket {

namespace {

using rdma_cm::Errno;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Another thread that uses the same socket may take a notification away; so nobody sleeps longer
/// than this without a look of his own.
constexpr milliseconds sleep_max(200);

constexpr short always_told = POLLERR | POLLHUP | POLLNVAL;

class Poll {
 public:
  explicit Poll(std::span<pollfd> list) : list_(list) {
    for (const pollfd& entry : list) {
      sockets_.push_back(entry.fd >= 0 ? find(entry.fd) : nullptr);
    }
  }

  /// Fills in what everybody has to tell, and counts who has something.
  int look() {
    int count = 0;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      pollfd& entry = list_[i];
      entry.revents = 0;
      if (sockets_[i] != nullptr) {
        entry.revents = static_cast<short>(sockets_[i]->ready() & (entry.events | always_told));
      } else if (entry.fd >= 0) {
        static_cast<void>(kernel::poll(std::span(&entry, 1), 0));
      }
      count += entry.revents != 0 ? 1 : 0;
    }
    return count;
  }

  void watch() {
    wait_for_.clear();
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (sockets_[i] != nullptr) {
        sockets_[i]->watch(wait_for_);
      } else if (list_[i].fd >= 0) {
        wait_for_.push_back({.fd = list_[i].fd, .events = list_[i].events, .revents = 0});
      }
    }
  }

  Errno sleep(milliseconds time) {
    const Errno error = kernel::poll(wait_for_, static_cast<int>(time.count()));
    for (const SocketPtr& socket : sockets_) {
      if (socket != nullptr) {
        socket->look();
      }
    }
    return error;
  }

 private:
  std::span<pollfd> list_;
  std::vector<SocketPtr> sockets_;
  std::vector<pollfd> wait_for_;
};

}  // namespace

Result<int, Errno> poll(std::span<pollfd> list, int timeout_ms) {
  Poll waiting(list);
  const auto deadline = Clock::now() + milliseconds(std::max(timeout_ms, 0));
  for (;;) {
    if (const int count = waiting.look(); count > 0 || timeout_ms == 0) {
      return count;
    }
    waiting.watch();
    // What came in between has told nobody.
    if (const int count = waiting.look(); count > 0) {
      return count;
    }
    milliseconds left = sleep_max;
    if (timeout_ms > 0) {
      left = std::min(left, std::chrono::ceil<milliseconds>(deadline - Clock::now()));
      if (left.count() <= 0) {
        return 0;
      }
    }
    if (const Errno error = waiting.sleep(left)) {
      return std::unexpected(error);
    }
  }
}

}  // namespace verbena::rsocket
