#include "verbs/rdma_cm/rsocket/kernel.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbena::rsocket::kernel {

namespace {

Errno error_of(long result) { return result < 0 ? errno : 0; }

}  // namespace

Errno poll(std::span<pollfd> list, int timeout_ms) {
  return error_of(::syscall(SYS_poll, list.data(), list.size(), timeout_ms));
}

void set_nonblocking(int fd) {
  const long flags = ::syscall(SYS_fcntl, fd, F_GETFL);
  ::syscall(SYS_fcntl, fd, F_SETFL, flags | O_NONBLOCK);
}

int duplicate(int fd) { return static_cast<int>(::syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0)); }

void close(int fd) { ::syscall(SYS_close, fd); }

DatagramSocket::~DatagramSocket() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

Errno DatagramSocket::open(int domain) {
  fd_ = static_cast<int>(::syscall(SYS_socket, domain, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return error_of(fd_);
}

Errno DatagramSocket::bind(const sockaddr& address, socklen_t length) const {
  return error_of(::syscall(SYS_bind, fd_, &address, length));
}

Errno DatagramSocket::connect(const sockaddr& address, socklen_t length) const {
  return error_of(::syscall(SYS_connect, fd_, &address, length));
}

Result<std::size_t, Errno> DatagramSocket::send(std::span<const iovec> parts, const sockaddr& to,
                                                socklen_t length) const {
  msghdr message{};
  // Neither is changed.
  message.msg_name = const_cast<sockaddr*>(&to);
  message.msg_namelen = length;
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  const long sent = ::syscall(SYS_sendmsg, fd_, &message, MSG_NOSIGNAL);
  if (sent < 0) {
    return std::unexpected(errno);
  }
  return static_cast<std::size_t>(sent);
}

Result<std::size_t, Errno> DatagramSocket::receive(std::span<std::byte> bytes, sockaddr& from,
                                                   socklen_t& length) const {
  const long received =
      ::syscall(SYS_recvfrom, fd_, bytes.data(), bytes.size(), MSG_DONTWAIT, &from, &length);
  if (received < 0) {
    return std::unexpected(errno);
  }
  return static_cast<std::size_t>(received);
}

Errno DatagramSocket::name(sockaddr_storage& address) const {
  socklen_t length = sizeof address;
  return error_of(::syscall(SYS_getsockname, fd_, &address, &length));
}

Errno DatagramSocket::peer(sockaddr_storage& address) const {
  socklen_t length = sizeof address;
  return error_of(::syscall(SYS_getpeername, fd_, &address, &length));
}

Errno DatagramSocket::set_option(int level, int name, const void* value, socklen_t length) const {
  return error_of(::syscall(SYS_setsockopt, fd_, level, name, value, length));
}

Errno DatagramSocket::option(int level, int name, void* value, socklen_t& length) const {
  return error_of(::syscall(SYS_getsockopt, fd_, level, name, value, &length));
}

}  // namespace verbena::rsocket::kernel
