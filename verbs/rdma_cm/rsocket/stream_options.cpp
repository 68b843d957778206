// Options of stream sockets: those that mean something, and those that programs set anyway.

#include <netinet/tcp.h>
#include <rdma/rsocket.h>

#include <algorithm>
#include <cstring>

#include "verbs/rdma_cm/rsocket/stream_socket.h"

namespace verbena::rsocket {

namespace {

/// As Linux: a program that asks for a buffer gets twice as much.
constexpr std::uint32_t buffer_factor = 2;
constexpr std::uint32_t buffer_bytes_min = 4096;
constexpr std::uint32_t buffer_bytes_max = 1U << 28;
constexpr int queue_size_max = 0xFFFE;
constexpr int tcp_segment_bytes = 1024;
/// As Linux limits it.
constexpr int keep_alive_idle_s_max = 32767;

}  // namespace

Errno StreamSocket::set_option(int level, int option, const void* value, socklen_t length) {
  if (is_time_limit(level, option)) {
    return set_time_limit(option, value, length);
  }
  const std::lock_guard guard(mutex_);
  if (level == SOL_SOCKET) {
    return set_socket_option(option, value, length);
  }
  int number = 0;
  if (const Errno error = read_int(value, length, number)) {
    return error;
  }
  if (level == IPPROTO_TCP) {
    switch (option) {
      case TCP_NODELAY:
        no_delay_ = number != 0;  // Nothing is ever delayed.
        return 0;
      case TCP_KEEPIDLE:
        if (number < 1 || number > keep_alive_idle_s_max) {
          return EINVAL;
        }
        keep_alive_idle_s_ = number;
        start_keep_alive();
        return 0;
      case TCP_KEEPCNT:
      case TCP_KEEPINTVL:
      case TCP_MAXSEG:
        return 0;  // Of a reliable connection, the network decides.
      default:
        return ENOPROTOOPT;
    }
  }
  if (level == IPPROTO_IPV6 && option == IPV6_V6ONLY) {
    v6_only_ = number != 0;
    return rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &number, sizeof number) == 0
               ? 0
               : errno;
  }
  return level == SOL_RDMA ? set_rdma_option(option, number) : ENOPROTOOPT;
}

Errno StreamSocket::set_socket_option(int option, const void* value, socklen_t length) {
  if (option == SO_LINGER) {
    return length < sizeof(linger) ? EINVAL : 0;  // Closing always waits for what was sent.
  }
  int number = 0;
  if (const Errno error = read_int(value, length, number)) {
    return error;
  }
  const auto buffer = std::clamp(static_cast<std::uint32_t>(std::max(number, 0)),
                                 buffer_bytes_min / buffer_factor, buffer_bytes_max / 2) *
                      buffer_factor;
  switch (option) {
    case SO_REUSEADDR:
      reuse_address_ = number != 0;
      // Too late for a bound one, which programs that ask so late don't mind.
      rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &number, sizeof number);
      return 0;
    case SO_RCVBUF:
      sizes_.receive_bytes = stream_ ? sizes_.receive_bytes : buffer;
      return 0;
    case SO_SNDBUF:
      sizes_.send_bytes = stream_ ? sizes_.send_bytes : buffer;
      return 0;
    case SO_KEEPALIVE:
      keep_alive_ = number != 0;
      start_keep_alive();
      return 0;
    case SO_OOBINLINE:
      out_of_band_inline_ = number != 0;
      return 0;
    default:
      return ENOPROTOOPT;
  }
}

Errno StreamSocket::set_rdma_option(int option, int number) {
  if (state_ != State::fresh && state_ != State::bound && state_ != State::listening) {
    return EINVAL;
  }
  const auto size = static_cast<std::uint16_t>(std::clamp(number, 0, queue_size_max));
  switch (option) {
    case RDMA_SQSIZE:
      sizes_.sends = size;
      return 0;
    case RDMA_RQSIZE:
      sizes_.receives = size;
      return 0;
    case RDMA_INLINE:
      sizes_.inline_bytes = size;
      return 0;
    case RDMA_IOMAPSIZE:
      sizes_.map_entries = map_entries(scaled_map_entries(size));
      return 0;
    default:
      return ENOPROTOOPT;
  }
}

Errno StreamSocket::option(int level, int option, void* value, socklen_t& length) {
  if (is_time_limit(level, option)) {
    return time_limit(option, value, length);
  }
  const std::lock_guard guard(mutex_);
  if (level == SOL_SOCKET && option == SO_LINGER) {
    const linger lingers{.l_onoff = 1, .l_linger = 0};
    if (length < sizeof lingers) {
      return EINVAL;
    }
    std::memcpy(value, &lingers, sizeof lingers);
    length = sizeof lingers;
    return 0;
  }
  struct Row {
    int level;
    int option;
    int value;
  };
  const Row rows[] = {
      {SOL_SOCKET, SO_TYPE, SOCK_STREAM},
      {SOL_SOCKET, SO_ACCEPTCONN, state_ == State::listening ? 1 : 0},
      {SOL_SOCKET, SO_REUSEADDR, reuse_address_ ? 1 : 0},
      {SOL_SOCKET, SO_KEEPALIVE, keep_alive_ ? 1 : 0},
      {SOL_SOCKET, SO_OOBINLINE, out_of_band_inline_ ? 1 : 0},
      {SOL_SOCKET, SO_RCVBUF, static_cast<int>(sizes_.receive_bytes)},
      {SOL_SOCKET, SO_SNDBUF, static_cast<int>(sizes_.send_bytes)},
      {SOL_SOCKET, SO_ERROR, error_},
      {IPPROTO_TCP, TCP_NODELAY, no_delay_ ? 1 : 0},
      {IPPROTO_TCP, TCP_KEEPIDLE, keep_alive_idle_s_},
      {IPPROTO_TCP, TCP_KEEPCNT, 1},
      {IPPROTO_TCP, TCP_KEEPINTVL, 1},
      {IPPROTO_TCP, TCP_MAXSEG, tcp_segment_bytes},
      {IPPROTO_IPV6, IPV6_V6ONLY, v6_only_ ? 1 : 0},
      {SOL_RDMA, RDMA_SQSIZE, sizes_.sends},
      {SOL_RDMA, RDMA_RQSIZE, sizes_.receives},
      {SOL_RDMA, RDMA_INLINE, sizes_.inline_bytes},
      {SOL_RDMA, RDMA_IOMAPSIZE, sizes_.map_entries},
  };
  for (const Row& row : rows) {
    if (row.level == level && row.option == option) {
      if (level == SOL_SOCKET && option == SO_ERROR) {
        error_ = 0;  // Told once.
      }
      return write_int(row.value, value, length);
    }
  }
  return ENOPROTOOPT;
}

}  // namespace verbena::rsocket
