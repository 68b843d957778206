// The system calls of ways to the network, made directly; see sys.h. All return what the kernel
// returns: a value, or -errno.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "ports/socket_address.h"
#include "ports/sys.h"
#include "proto/inet/mac_address.h"

namespace verbena::ports::sys {

/// AF_INET or AF_INET6, non-blocking, close-on-exec.
[[nodiscard]] Result<Fd, int> udp_socket(int family);
/// Tells a socket from another that has its number now; 0 if it is none.
[[nodiscard]] ino_t socket_inode(int fd);
[[nodiscard]] int set_option(int fd, int level, int option, int value);
[[nodiscard]] int bind_to(int fd, const SocketAddress& address);
/// What is sent to a group comes to the socket, if it arrives at that interface and the socket is
/// bound to the group.
[[nodiscard]] int join_group(int fd, const Gid& group, unsigned interface_index);
/// What the socket sends to groups leaves by that interface, and doesn't come back to this host.
[[nodiscard]] int send_groups_by(int fd, int family, unsigned interface_index);
/// Without waiting and without SIGPIPE. The number of bytes, or -errno.
[[nodiscard]] long send_message(int fd, const msghdr& message);
[[nodiscard]] long receive_message(int fd, msghdr& message);

/// Sends an empty datagram without waiting.
void send_empty(int fd, const SocketAddress& to);

/// Sends a whole Ethernet frame by a packet socket that is bound to an interface (packet(7)),
/// without waiting; 0 or -errno.
[[nodiscard]] int send_frame(int fd, ByteView frame);
/// Whether the interface of a packet socket lets frames to that group through.
[[nodiscard]] int set_ethernet_group(int fd, const inet::MacAddress& mac, bool wanted);

/// NETLINK_ROUTE, which answers at once.
[[nodiscard]] Result<Fd, int> route_socket();
/// Sends a question and receives the answer; its size, or -errno.
[[nodiscard]] long exchange(int fd, ByteView question, MutableBytes answer);

[[nodiscard]] Result<Fd, int> epoll();
/// Adds `fd`, or changes what is waited for. `events` 0 waits for nothing but errors.
[[nodiscard]] int epoll_watch(int epoll, int fd, std::uint32_t events);
/// Takes `fd` out, before it is closed: a copy in another process would keep it in the set.
void epoll_forget(int epoll, int fd);
/// What is ready now; `data.fd` tells whom it is about. The number of events, or -errno.
[[nodiscard]] int epoll_ready(int epoll, std::span<epoll_event> events);

/// The Ethernet address of an interface; an error if it has none.
[[nodiscard]] Result<inet::MacAddress, int> ethernet_address(const std::string& interface);
/// The largest IP packet of an interface, in bytes.
[[nodiscard]] Result<std::size_t, int> interface_mtu(const std::string& interface);

}  // namespace verbena::ports::sys
