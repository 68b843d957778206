// The system calls of TCP sockets, made directly; see sys.h, whose listen(), accept(), send() and
// receive() are for them as well. All return what the kernel returns: a value, or -errno. No socket
// here waits.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "base/result.h"
#include "ports/socket_address.h"
#include "ports/sys.h"

namespace verbena::ports::sys {

/// AF_INET or AF_INET6, non-blocking, close-on-exec. One of IPv6 takes no IPv4.
[[nodiscard]] Result<Fd, int> tcp_socket(int family);
/// See SO_REUSEADDR in socket(7).
[[nodiscard]] int set_reuse(int fd, bool value);
/// 0, or -EINPROGRESS: it is done, or has failed, when the socket is writable.
[[nodiscard]] int connect_to(int fd, const SocketAddress& address);
/// What became of a connection attempt: 0 or -errno. Asked once.
[[nodiscard]] int take_error(int fd);

[[nodiscard]] SocketAddress local_address(int fd);
[[nodiscard]] SocketAddress remote_address(int fd);
/// What a segment of a connection carries, in bytes (TCP_MAXSEG); -errno.
[[nodiscard]] int segment_bytes(int fd);
/// Small pieces leave at once (TCP_NODELAY): we make large ones ourselves.
[[nodiscard]] int send_at_once(int fd);

/// Nothing more is sent: what was, and then FIN.
[[nodiscard]] int end_sending(int fd);
/// Closing the descriptor resets the connection, whatever is under way.
[[nodiscard]] int reset_on_close(int fd);

}  // namespace verbena::ports::sys
