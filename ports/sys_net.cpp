#include "ports/sys_net.h"

#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <cstring>

#include "ports/sys_call.h"
#include "proto/roce/gid.h"

namespace verbena::ports::sys {

namespace {

template <class Value>
int set_struct(int fd, int level, int option, const Value& value) {
  return int_call(SYS_setsockopt, fd, level, option, &value, socklen_t{sizeof(value)});
}

}  // namespace

Result<Fd, int> udp_socket(int family) {
  const int fd = int_call(SYS_socket, family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    return std::unexpected(fd);
  }
  return Fd(fd);
}

ino_t socket_inode(int fd) {
  struct stat status{};
  return fstat(fd, status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

int set_option(int fd, int level, int option, int value) {
  return set_struct(fd, level, option, value);
}

int bind_to(int fd, const SocketAddress& address) {
  return int_call(SYS_bind, fd, address.get(), address.bytes);
}

int join_group(int fd, const Gid& group, unsigned interface_index) {
  if (const auto ipv4 = roce::ipv4_from_gid(group)) {
    ip_mreqn request{};
    std::memcpy(&request.imr_multiaddr, ipv4->bytes.data(), ipv4->bytes.size());
    request.imr_ifindex = static_cast<int>(interface_index);
    return set_struct(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, request);
  }
  ipv6_mreq request{};
  std::memcpy(&request.ipv6mr_multiaddr, group.bytes.data(), group.bytes.size());
  request.ipv6mr_interface = interface_index;
  return set_struct(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, request);
}

int send_groups_by(int fd, int family, unsigned interface_index) {
  if (family == AF_INET6) {
    const int result = set_struct(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, interface_index);
    return result < 0 ? result : set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0);
  }
  ip_mreqn request{};
  request.imr_ifindex = static_cast<int>(interface_index);
  const int result = set_struct(fd, IPPROTO_IP, IP_MULTICAST_IF, request);
  return result < 0 ? result : set_option(fd, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
}

long send_message(int fd, const msghdr& message) {
  return call(SYS_sendmsg, fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

long receive_message(int fd, msghdr& message) {
  return call(SYS_recvmsg, fd, &message, MSG_DONTWAIT);
}

void send_empty(int fd, const SocketAddress& to) {
  call(SYS_sendto, fd, "", std::size_t{0}, MSG_DONTWAIT | MSG_NOSIGNAL, to.get(), to.bytes);
}

int send_frame(int fd, ByteView frame) {
  const long sent =
      call(SYS_sendto, fd, frame.data(), frame.size(), MSG_DONTWAIT, nullptr, socklen_t{0});
  return sent < 0 ? static_cast<int>(sent) : 0;
}

int set_ethernet_group(int fd, const inet::MacAddress& mac, bool wanted) {
  sockaddr_ll place{};
  socklen_t place_bytes = sizeof(place);
  if (const int result = int_call(SYS_getsockname, fd, &place, &place_bytes); result < 0) {
    return result;
  }
  packet_mreq request{};
  request.mr_ifindex = place.sll_ifindex;
  request.mr_type = PACKET_MR_MULTICAST;
  request.mr_alen = static_cast<unsigned short>(mac.bytes.size());
  std::memcpy(request.mr_address, mac.bytes.data(), mac.bytes.size());
  return set_struct(fd, SOL_PACKET, wanted ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP,
                    request);
}

Result<Fd, int> route_socket() {
  const int fd =
      int_call(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  if (fd < 0) {
    return std::unexpected(fd);
  }
  return Fd(fd);
}

long exchange(int fd, ByteView question, MutableBytes answer) {
  const long sent =
      call(SYS_sendto, fd, question.data(), question.size(), MSG_DONTWAIT, nullptr, socklen_t{0});
  if (sent < 0) {
    return sent;
  }
  return call(SYS_recvfrom, fd, answer.data(), answer.size(), MSG_DONTWAIT, nullptr, nullptr);
}

Result<Fd, int> epoll() {
  const int fd = int_call(SYS_epoll_create1, EPOLL_CLOEXEC);
  if (fd < 0) {
    return std::unexpected(fd);
  }
  return Fd(fd);
}

int epoll_watch(int epoll, int fd, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  const int changed = int_call(SYS_epoll_ctl, epoll, EPOLL_CTL_MOD, fd, &event);
  return changed == -ENOENT ? int_call(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, fd, &event) : changed;
}

void epoll_forget(int epoll, int fd) {
  static_cast<void>(int_call(SYS_epoll_ctl, epoll, EPOLL_CTL_DEL, fd, nullptr));
}

int epoll_ready(int epoll, std::span<epoll_event> events) {
  return int_call(SYS_epoll_pwait, epoll, events.data(), static_cast<int>(events.size()), 0,
                  nullptr, std::size_t{0});
}

namespace {

/// What the kernel knows of an interface (netdevice(7)).
Result<ifreq, int> ask_of(const std::string& interface, unsigned long question) {
  const auto socket = udp_socket(AF_INET);
  if (!socket) {
    return std::unexpected(socket.error());
  }
  ifreq request{};
  if (interface.size() >= sizeof(request.ifr_name)) {
    return std::unexpected(-ENODEV);
  }
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  if (const int result = int_call(SYS_ioctl, socket->get(), question, &request); result < 0) {
    return std::unexpected(result);
  }
  return request;
}

}  // namespace

Result<inet::MacAddress, int> ethernet_address(const std::string& interface) {
  const auto answer = ask_of(interface, SIOCGIFHWADDR);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  if (answer->ifr_hwaddr.sa_family != ARPHRD_ETHER) {
    return std::unexpected(-EPFNOSUPPORT);
  }
  inet::MacAddress mac;
  std::memcpy(mac.bytes.data(), answer->ifr_hwaddr.sa_data, mac.bytes.size());
  return mac;
}

Result<std::size_t, int> interface_mtu(const std::string& interface) {
  const auto answer = ask_of(interface, SIOCGIFMTU);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  return static_cast<std::size_t>(answer->ifr_mtu);
}

}  // namespace verbena::ports::sys
