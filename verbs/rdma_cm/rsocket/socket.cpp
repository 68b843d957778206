#include "verbs/rdma_cm/rsocket/socket.h"

#include <fcntl.h>

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

bool Socket::may_wait(int flags) const {
  return (flags & MSG_DONTWAIT) == 0 && (status_flags_ & O_NONBLOCK) == 0;
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
