// System calls, made directly: programs come to rsockets through librspreload, too, which puts
// functions of its own in front of libc's.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "base/result.h"
#include "verbs/rdma_cm/abi.h"

namespace verbena::rsocket::kernel {

using rdma_cm::Errno;

/// Negative: without end. What is ready is in the list; EINTR after a signal.
[[nodiscard]] Errno poll(std::span<pollfd> list, int timeout_ms);
void set_nonblocking(int fd);
/// A new descriptor of the same thing, the lowest that is free; -1 if the process is out of them.
[[nodiscard]] int duplicate(int fd);
void close(int fd);

/// A socket of the kernel's for datagrams.
class DatagramSocket {
 public:
  DatagramSocket() = default;
  ~DatagramSocket();
  DatagramSocket(const DatagramSocket&) = delete;
  DatagramSocket& operator=(const DatagramSocket&) = delete;

  [[nodiscard]] Errno open(int domain);
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] Errno bind(const sockaddr& address, socklen_t length) const;
  [[nodiscard]] Errno connect(const sockaddr& address, socklen_t length) const;
  [[nodiscard]] Result<std::size_t, Errno> send(std::span<const iovec> parts, const sockaddr& to,
                                                socklen_t length) const;
  /// Never waits. `length` is that of the place for the sender's address, and then of the address.
  [[nodiscard]] Result<std::size_t, Errno> receive(std::span<std::byte> bytes, sockaddr& from,
                                                   socklen_t& length) const;
  [[nodiscard]] Errno name(sockaddr_storage& address) const;
  [[nodiscard]] Errno peer(sockaddr_storage& address) const;
  [[nodiscard]] Errno set_option(int level, int name, const void* value, socklen_t length) const;
  [[nodiscard]] Errno option(int level, int name, void* value, socklen_t& length) const;

 private:
  int fd_ = -1;
};

}  // namespace verbena::rsocket::kernel
