// rsockets: the socket calls, by the numbers of our sockets. What each does is in rsocket/.

#include <fcntl.h>
#include <rdma/rsocket.h>

#include <array>
#include <cstdarg>
#include <cstring>
#include <vector>

#include "verbs/rdma_cm/rsocket/datagram_socket.h"
#include "verbs/rdma_cm/rsocket/poll.h"
#include "verbs/rdma_cm/rsocket/socket.h"
#include "verbs/rdma_cm/rsocket/stream_socket.h"

namespace verbena::rsocket {

namespace {

using rdma_cm::status;

/// Runs a function on the socket of that number; -1 and EBADF if there is none. Memory that runs
/// out is an error like others: no exception crosses the C ABI.
template <class Function>
int with_socket(int number, Function&& function) noexcept {
  return rdma_cm::guarded([&]() -> Errno {
    const SocketPtr socket = find(number);
    return socket ? function(*socket) : EBADF;
  });
}

/// As with_socket(), for functions that count.
template <class Function>
ssize_t transfer(int number, Function&& function) noexcept {
  ssize_t count = -1;
  static_cast<void>(with_socket(number, [&](Socket& socket) -> Errno {
    const auto done = function(socket);
    if (!done) {
      return done.error();
    }
    count = static_cast<ssize_t>(*done);
    return 0;
  }));
  return count;
}

ssize_t send(int number, std::span<const iovec> parts, int flags, const sockaddr* to,
             socklen_t length) {
  return transfer(number, [&](Socket& socket) { return socket.send(parts, flags, to, length); });
}

ssize_t receive(int number, std::span<const iovec> parts, int flags, const Address& from = {}) {
  return transfer(number, [&](Socket& socket) { return socket.receive(parts, flags, from); });
}

iovec part_of(const void* bytes, std::size_t length) {
  return {.iov_base = const_cast<void*>(bytes), .iov_len = length};
}

Errno open_socket(int domain, int type, int protocol, int& number) {
  constexpr int kind_mask = ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
  const bool is_stream = (type & kind_mask) == SOCK_STREAM;
  if (domain != AF_INET && domain != AF_INET6) {
    return EAFNOSUPPORT;
  }
  if (!is_stream && (type & kind_mask) != SOCK_DGRAM) {
    return ESOCKTNOSUPPORT;
  }
  if (protocol != 0 && protocol != (is_stream ? IPPROTO_TCP : IPPROTO_UDP)) {
    return EPROTONOSUPPORT;
  }
  auto made = is_stream ? StreamSocket::create(domain) : DatagramSocket::create(domain);
  if (!made) {
    return made.error();
  }
  (*made)->set_status_flags((type & SOCK_NONBLOCK) != 0 ? O_RDWR | O_NONBLOCK : O_RDWR);
  number = (*made)->number();
  insert(std::move(*made));
  return 0;
}

/// As getsockname(): as much as there is room for, and how long it is. Without room, only that.
Errno copy_out(const sockaddr_storage& from, sockaddr* to, socklen_t* length) {
  if (length == nullptr || (to == nullptr && *length > 0)) {
    return EFAULT;
  }
  const socklen_t full = from.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (to != nullptr) {
    std::memcpy(to, &from, std::min(*length, full));
  }
  *length = full;
  return 0;
}

/// Descriptors of a select(), as poll() wants them.
std::vector<pollfd> list_of(int count, const fd_set* reading, const fd_set* writing,
                            const fd_set* exceptional) {
  std::vector<pollfd> list;
  for (int fd = 0; fd < count; ++fd) {
    const bool reads = reading != nullptr && FD_ISSET(fd, reading);
    const bool writes = writing != nullptr && FD_ISSET(fd, writing);
    if (reads || writes || (exceptional != nullptr && FD_ISSET(fd, exceptional))) {
      list.push_back({.fd = fd,
                      .events = static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0)),
                      .revents = 0});
    }
  }
  return list;
}

int mark(std::span<const pollfd> list, fd_set* set, short events, const fd_set& asked) {
  int count = 0;
  for (const pollfd& entry : list) {
    if (set != nullptr && FD_ISSET(entry.fd, &asked) && (entry.revents & events) != 0) {
      FD_SET(entry.fd, set);
      ++count;
    }
  }
  return count;
}

fd_set taken_from(fd_set* set) {
  fd_set asked;
  FD_ZERO(&asked);
  if (set != nullptr) {
    asked = *set;
    FD_ZERO(set);
  }
  return asked;
}

Result<int, Errno> select(int count, fd_set* reading, fd_set* writing, fd_set* exceptional,
                          const timeval* timeout) {
  std::vector<pollfd> list = list_of(count, reading, writing, exceptional);
  constexpr int forever = -1;
  const int timeout_ms =
      timeout == nullptr
          ? forever
          : static_cast<int>(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
  const auto polled = poll(list, timeout_ms);
  if (!polled) {
    return polled;
  }
  const fd_set asked_reading = taken_from(reading);
  const fd_set asked_writing = taken_from(writing);
  const fd_set asked_exceptional = taken_from(exceptional);
  return mark(list, reading, POLLIN | POLLHUP | POLLERR, asked_reading) +
         mark(list, writing, POLLOUT | POLLERR, asked_writing) +
         mark(list, exceptional, POLLPRI, asked_exceptional);
}

int counted(const Result<int, Errno>& result) { return result ? *result : status(result.error()); }

}  // namespace

}  // namespace verbena::rsocket

using namespace verbena;
using rdma_cm::Errno;
using rsocket::Socket;

VERBENA_EXPORT int rsocket(int domain, int type, int protocol) {
  int number = -1;
  const int result =
      rdma_cm::guarded([&] { return rsocket::open_socket(domain, type, protocol, number); });
  return result == 0 ? number : -1;
}

VERBENA_EXPORT int rbind(int socket, const sockaddr* address, socklen_t length) {
  return rsocket::with_socket(socket, [&](Socket& s) { return s.bind(*address, length); });
}

VERBENA_EXPORT int rlisten(int socket, int backlog) {
  return rsocket::with_socket(socket, [&](Socket& s) { return s.listen(backlog); });
}

VERBENA_EXPORT int raccept(int socket, sockaddr* address, socklen_t* length) {
  int number = -1;
  const int result = rsocket::with_socket(socket, [&](Socket& s) -> Errno {
    auto accepted = s.accept();
    if (!accepted) {
      return accepted.error();
    }
    sockaddr_storage peer{};
    if (address != nullptr && (*accepted)->peer(peer) == 0) {
      static_cast<void>(rsocket::copy_out(peer, address, length));
    }
    (*accepted)->set_status_flags(O_RDWR);
    number = (*accepted)->number();
    rsocket::insert(std::move(*accepted));
    return 0;
  });
  return result == 0 ? number : -1;
}

VERBENA_EXPORT int rconnect(int socket, const sockaddr* address, socklen_t length) {
  return rsocket::with_socket(socket, [&](Socket& s) { return s.connect(*address, length); });
}

VERBENA_EXPORT int rshutdown(int socket, int how) {
  return rsocket::with_socket(socket, [&](Socket& s) { return s.shutdown(how); });
}

VERBENA_EXPORT int rclose(int socket) {
  return rdma_cm::guarded([&]() -> Errno {
    const rsocket::SocketPtr taken = rsocket::take(socket);
    if (!taken) {
      return EBADF;
    }
    taken->close();
    return 0;
  });
}

VERBENA_EXPORT ssize_t rrecv(int socket, void* bytes, std::size_t length, int flags) {
  const iovec part = rsocket::part_of(bytes, length);
  return rsocket::receive(socket, std::span(&part, 1), flags);
}

VERBENA_EXPORT ssize_t rrecvfrom(int socket, void* bytes, std::size_t length, int flags,
                                 sockaddr* from, socklen_t* from_length) {
  const iovec part = rsocket::part_of(bytes, length);
  return rsocket::receive(socket, std::span(&part, 1), flags, {from, from_length});
}

VERBENA_EXPORT ssize_t rrecvmsg(int socket, msghdr* message, int flags) {
  message->msg_controllen = 0;
  message->msg_flags = 0;
  return rsocket::receive(socket, std::span(message->msg_iov, message->msg_iovlen), flags,
                          {static_cast<sockaddr*>(message->msg_name),
                           message->msg_name != nullptr ? &message->msg_namelen : nullptr});
}

VERBENA_EXPORT ssize_t rread(int socket, void* bytes, std::size_t length) {
  return rrecv(socket, bytes, length, 0);
}

VERBENA_EXPORT ssize_t rreadv(int socket, const iovec* parts, int count) {
  return rsocket::receive(socket, std::span(parts, static_cast<std::size_t>(count)), 0);
}

VERBENA_EXPORT ssize_t rsend(int socket, const void* bytes, std::size_t length, int flags) {
  return rsendto(socket, bytes, length, flags, nullptr, 0);
}

VERBENA_EXPORT ssize_t rsendto(int socket, const void* bytes, std::size_t length, int flags,
                               const sockaddr* to, socklen_t to_length) {
  const iovec part = rsocket::part_of(bytes, length);
  return rsocket::send(socket, std::span(&part, 1), flags, to, to_length);
}

VERBENA_EXPORT ssize_t rsendmsg(int socket, const msghdr* message, int flags) {
  if (message->msg_controllen != 0) {
    return rdma_cm::status(EOPNOTSUPP);
  }
  return rsocket::send(socket, std::span(message->msg_iov, message->msg_iovlen), flags,
                       static_cast<const sockaddr*>(message->msg_name), message->msg_namelen);
}

VERBENA_EXPORT ssize_t rwrite(int socket, const void* bytes, std::size_t length) {
  return rsend(socket, bytes, length, 0);
}

VERBENA_EXPORT ssize_t rwritev(int socket, const iovec* parts, int count) {
  return rsocket::send(socket, std::span(parts, static_cast<std::size_t>(count)), 0, nullptr, 0);
}

VERBENA_EXPORT int rpoll(pollfd* list, nfds_t count, int timeout_ms) {
  try {
    return rsocket::counted(rsocket::poll(std::span(list, count), timeout_ms));
  } catch (const std::exception&) {
    return rdma_cm::status(ENOMEM);
  }
}

VERBENA_EXPORT int rselect(int count, fd_set* reading, fd_set* writing, fd_set* exceptional,
                           timeval* timeout) {
  try {
    return rsocket::counted(rsocket::select(count, reading, writing, exceptional, timeout));
  } catch (const std::exception&) {
    return rdma_cm::status(ENOMEM);
  }
}

VERBENA_EXPORT int rgetpeername(int socket, sockaddr* address, socklen_t* length) {
  return rsocket::with_socket(socket, [&](Socket& s) -> Errno {
    sockaddr_storage peer{};
    const Errno error = s.peer(peer);
    return error != 0 ? error : rsocket::copy_out(peer, address, length);
  });
}

VERBENA_EXPORT int rgetsockname(int socket, sockaddr* address, socklen_t* length) {
  return rsocket::with_socket(socket, [&](Socket& s) -> Errno {
    sockaddr_storage name{};
    const Errno error = s.name(name);
    return error != 0 ? error : rsocket::copy_out(name, address, length);
  });
}

VERBENA_EXPORT int rsetsockopt(int socket, int level, int option, const void* value,
                               socklen_t length) {
  return rsocket::with_socket(
      socket, [&](Socket& s) { return s.set_option(level, option, value, length); });
}

VERBENA_EXPORT int rgetsockopt(int socket, int level, int option, void* value, socklen_t* length) {
  return rsocket::with_socket(socket,
                              [&](Socket& s) { return s.option(level, option, value, *length); });
}

VERBENA_EXPORT int rfcntl(int socket, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const int argument = command == F_SETFL ? va_arg(arguments, int) : 0;
  va_end(arguments);
  int value = 0;
  const int result = rsocket::with_socket(socket, [&](Socket& s) -> Errno {
    switch (command) {
      case F_GETFL:
        value = s.status_flags();
        return 0;
      case F_SETFL:
        s.set_status_flags(argument);
        return 0;
      case F_GETFD:
      case F_SETFD:
        return 0;  // No socket of ours outlives an exec().
      default:
        return ENOTSUP;
    }
  });
  return result == 0 ? value : -1;
}

VERBENA_EXPORT off_t riomap(int socket, void* memory, std::size_t length, int protection,
                            int /*flags*/, off_t offset) {
  if ((protection & ~PROT_WRITE) != 0) {
    return rdma_cm::status(EINVAL);
  }
  // -1: the peer calls it by its address.
  const auto at =
      offset == -1 ? reinterpret_cast<std::uintptr_t>(memory) : static_cast<std::uint64_t>(offset);
  return rsocket::transfer(
      socket, [&](Socket& s) { return s.map(memory, length, (protection & PROT_WRITE) != 0, at); });
}

VERBENA_EXPORT int riounmap(int socket, void* memory, std::size_t length) {
  return rsocket::with_socket(socket, [&](Socket& s) { return s.unmap(memory, length); });
}

VERBENA_EXPORT std::size_t riowrite(int socket, const void* bytes, std::size_t length, off_t offset,
                                    int flags) {
  return static_cast<std::size_t>(rsocket::transfer(socket, [&](Socket& s) {
    return s.write_at(std::span(static_cast<const std::byte*>(bytes), length),
                      static_cast<std::uint64_t>(offset), flags);
  }));
}
