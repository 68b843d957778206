#include "ports/sys_tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "ports/sys_call.h"
#include "ports/sys_net.h"

namespace verbena::ports::sys {

namespace {

template <class Value>
int get_option(int fd, int level, int option, Value& value) {
  socklen_t bytes = sizeof(value);
  return int_call(SYS_getsockopt, fd, level, option, &value, &bytes);
}

/// Of getsockname() and getpeername(); zeros if there is none.
SocketAddress address_by(long number, int fd) {
  SocketAddress address;
  if (int_call(number, fd, address.get(), &address.bytes) < 0) {
    address = {};
  }
  return address;
}

}  // namespace

Result<Fd, int> tcp_socket(int family) {
  const int fd = int_call(SYS_socket, family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    return std::unexpected(fd);
  }
  Fd socket(fd);
  if (const int result = family == AF_INET6 ? set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) : 0;
      result < 0) {
    return std::unexpected(result);
  }
  return socket;
}

int set_reuse(int fd, bool value) {
  return set_option(fd, SOL_SOCKET, SO_REUSEADDR, value ? 1 : 0);
}

int connect_to(int fd, const SocketAddress& address) {
  return int_call(SYS_connect, fd, address.get(), address.bytes);
}

int take_error(int fd) {
  int error = 0;
  const int result = get_option(fd, SOL_SOCKET, SO_ERROR, error);
  return result < 0 ? result : -error;
}

SocketAddress local_address(int fd) { return address_by(SYS_getsockname, fd); }

SocketAddress remote_address(int fd) { return address_by(SYS_getpeername, fd); }

int segment_bytes(int fd) {
  int bytes = 0;
  const int result = get_option(fd, IPPROTO_TCP, TCP_MAXSEG, bytes);
  return result < 0 ? result : bytes;
}

int send_at_once(int fd) { return set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1); }

int end_sending(int fd) { return int_call(SYS_shutdown, fd, SHUT_WR); }

int reset_on_close(int fd) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  return int_call(SYS_setsockopt, fd, SOL_SOCKET, SO_LINGER, &at_once, socklen_t{sizeof(at_once)});
}

}  // namespace verbena::ports::sys
