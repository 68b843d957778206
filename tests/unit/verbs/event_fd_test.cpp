// The descriptors of event channels keep the manners of the kernel's.

#include "verbs/event_fd.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#include <catch2/catch.hpp>
#include <thread>

using verbena::verbs::EventFd;

namespace {

bool is_readable(const EventFd& event_fd) {
  pollfd entry{.fd = event_fd.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) == 1;
}

void set_nonblocking(const EventFd& event_fd) {
  REQUIRE(::fcntl(event_fd.fd(), F_SETFL, ::fcntl(event_fd.fd(), F_GETFL) | O_NONBLOCK) == 0);
}

}  // namespace

TEST_CASE("an event channel is readable while events wait, one token each") {
  EventFd event_fd;
  set_nonblocking(event_fd);
  CHECK_FALSE(is_readable(event_fd));
  event_fd.signal();
  event_fd.signal();
  CHECK(is_readable(event_fd));
  CHECK(event_fd.wait() == 0);
  CHECK(is_readable(event_fd));
  CHECK(event_fd.wait() == 0);
  CHECK_FALSE(is_readable(event_fd));
  CHECK(event_fd.wait() == EAGAIN);
}

TEST_CASE("an event channel blocks a reader by default until an event comes") {
  EventFd event_fd;
  int result = -1;
  std::thread reader([&] { result = event_fd.wait(); });
  event_fd.signal();
  reader.join();
  CHECK(result == 0);
}

TEST_CASE("a thread that waits for an event can be cancelled") {
  EventFd event_fd;
  pthread_t reader{};
  REQUIRE(::pthread_create(
              &reader, nullptr,
              [](void* argument) -> void* {
                static_cast<void>(static_cast<EventFd*>(argument)->wait());
                return nullptr;
              },
              &event_fd) == 0);
  REQUIRE(::pthread_cancel(reader) == 0);
  void* result = nullptr;
  REQUIRE(::pthread_join(reader, &result) == 0);
  CHECK(result == PTHREAD_CANCELED);
}

TEST_CASE("tokens are taken back without blocking, though the descriptor would block") {
  EventFd event_fd;
  event_fd.signal();
  event_fd.take_back(3);
  CHECK_FALSE(is_readable(event_fd));
}

TEST_CASE("an event channel is closed by exec") {
  EventFd event_fd;
  CHECK((::fcntl(event_fd.fd(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a program that closed our descriptor loses the wake-up, nothing else") {
  EventFd event_fd;
  const int own = ::dup(event_fd.fd());
  ::close(event_fd.fd());
  event_fd.signal();
  CHECK(event_fd.wait() == EBADF);
  // Put it back, so that the destructor closes what it opened.
  ::dup2(own, event_fd.fd());
  ::close(own);
}
