#include "verbs/rdma_cm/rsocket/socket.h"

#include <fcntl.h>
#include <sys/time.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace verbena::rsocket {

namespace {

struct Table {
  std::mutex mutex;
  std::map<int, SocketPtr> sockets;
};

/// Never destroyed: a program's threads may use sockets while it ends.
Table& table() {
  static Table& table = *new Table;
  return table;
}

}  // namespace

Result<std::uint64_t, Errno> Socket::map(void*, std::size_t, bool, std::uint64_t) {
  return std::unexpected(ENOTSUP);
}

Errno Socket::unmap(const void*, std::size_t) { return ENOTSUP; }

Result<std::size_t, Errno> Socket::write_at(std::span<const std::byte>, std::uint64_t, int) {
  return std::unexpected(ENOTSUP);
}

Patience Socket::patience(int flags, Patience::Milliseconds limit) const {
  const bool may_wait = (flags & MSG_DONTWAIT) == 0 && (status_flags_ & O_NONBLOCK) == 0;
  return may_wait ? Patience::limited(limit) : Patience::none();
}

Patience Socket::patience_to_receive(int flags) const { return patience(flags, receive_limit_); }

Patience Socket::patience_to_send(int flags) const { return patience(flags, send_limit_); }

bool Socket::is_time_limit(int level, int option) {
  return level == SOL_SOCKET && (option == SO_RCVTIMEO || option == SO_SNDTIMEO);
}

Errno Socket::set_time_limit(int option, const void* value, socklen_t length) {
  // What is longer is without end for any program.
  constexpr std::chrono::seconds seconds_max = std::chrono::hours(24 * 365);
  constexpr long microseconds_max = 999'999;
  timeval given{};
  if (value == nullptr || length < sizeof given) {
    return EINVAL;
  }
  std::memcpy(&given, value, sizeof given);
  if (given.tv_usec < 0 || given.tv_usec > microseconds_max) {
    return EDOM;
  }
  const std::chrono::seconds seconds(std::clamp<long>(given.tv_sec, 0, seconds_max.count()));
  const std::chrono::microseconds microseconds(given.tv_usec);
  (option == SO_RCVTIMEO ? receive_limit_ : send_limit_) =
      seconds + std::chrono::ceil<Patience::Milliseconds>(microseconds);
  return 0;
}

Errno Socket::time_limit(int option, void* value, socklen_t& length) const {
  const Patience::Milliseconds limit = option == SO_RCVTIMEO ? receive_limit_ : send_limit_;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(limit);
  const timeval given{.tv_sec = seconds.count(),
                      .tv_usec = std::chrono::microseconds(limit - seconds).count()};
  if (value == nullptr || length < sizeof given) {
    return EINVAL;
  }
  std::memcpy(value, &given, sizeof given);
  length = sizeof given;
  return 0;
}

SocketPtr find(int number) {
  const std::lock_guard guard(table().mutex);
  const auto found = table().sockets.find(number);
  return found == table().sockets.end() ? nullptr : found->second;
}

void insert(SocketPtr socket) {
  const std::lock_guard guard(table().mutex);
  const int number = socket->number();
  table().sockets[number] = std::move(socket);
}

SocketPtr take(int number) {
  const std::lock_guard guard(table().mutex);
  auto node = table().sockets.extract(number);
  return node.empty() ? nullptr : std::move(node.mapped());
}

Errno read_int(const void* value, socklen_t length, int& number) {
  if (value == nullptr || length < sizeof number) {
    return EINVAL;
  }
  std::memcpy(&number, value, sizeof number);
  return 0;
}

Errno write_int(int number, void* value, socklen_t& length) {
  if (value == nullptr || length < sizeof number) {
    return EINVAL;
  }
  std::memcpy(value, &number, sizeof number);
  length = sizeof number;
  return 0;
}

}  // namespace verbena::rsocket
