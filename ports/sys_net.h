// The system calls of ways to the network, made directly; see sys.h. All return what the kernel
// returns: a value, or -errno.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "ports/sys.h"
#include "proto/inet/ip_address.h"

namespace verbena::ports::sys {

/// IPv4, non-blocking, close-on-exec.
[[nodiscard]] Result<Fd, int> udp_socket();
[[nodiscard]] int set_option(int fd, int level, int option, int value);
[[nodiscard]] int bind_ipv4(int fd, inet::Ipv4Address address, std::uint16_t port);
/// Without waiting and without SIGPIPE. The number of bytes, or -errno.
[[nodiscard]] long send_message(int fd, const msghdr& message);
[[nodiscard]] long receive_message(int fd, msghdr& message);

[[nodiscard]] Result<Fd, int> epoll();
/// Adds `fd`, or changes what is waited for. `events` 0 waits for nothing but errors.
[[nodiscard]] int epoll_watch(int epoll, int fd, std::uint32_t events);

/// The largest IP packet of an interface, in bytes.
[[nodiscard]] Result<std::size_t, int> interface_mtu(const std::string& interface);

}  // namespace verbena::ports::sys
