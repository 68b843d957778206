// The file descriptor of an event channel, with the manners of the kernel's: readable while events
// wait, one wake-up for each event, reads block unless the program has set O_NONBLOCK.
//
// It is an eventfd that counts in single steps: one token for each event in the queue beside it.
// Taking an event is taking a token and then, under the queue's lock, an event. When a queue drops
// events of a destroyed object it takes back their tokens; if a reader was faster, that reader
// holds a token without an event and goes back to waiting:
//
//     tokens in the descriptor + readers that hold one >= events in the queue
#pragma once

#include <cstdint>

#include "base/result.h"
#include "verbs/errors.h"

namespace verbena::verbs {

class EventFd {
 public:
  EventFd() noexcept;
  ~EventFd();
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;

  /// -1 if the process is out of descriptors.
  [[nodiscard]] int fd() const { return fd_; }

  /// Adds a token. A program that has closed our descriptor loses the wake-up only.
  void signal() noexcept;
  /// Takes a token, as read() would: EAGAIN if there is none and the descriptor is non-blocking,
  /// EINTR after a signal. 0 if a token was taken. A point of cancellation, as read() is: programs
  /// end a thread that waits for events by pthread_cancel(). Its unwinding goes through here, so
  /// neither this nor what calls it is noexcept.
  [[nodiscard]] Errno wait();
  /// Takes back up to `count` tokens without blocking.
  void take_back(std::uint64_t count) noexcept;

 private:
  int fd_;
};

}  // namespace verbena::verbs
