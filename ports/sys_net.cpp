#include "ports/sys_net.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <bit>
#include <boost/endian/conversion.hpp>
#include <cstring>

#include "ports/sys_call.h"

namespace verbena::ports::sys {

Result<Fd, int> udp_socket() {
  const int fd =
      int_call(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);
  if (fd < 0) {
    return std::unexpected(fd);
  }
  return Fd(fd);
}

int set_option(int fd, int level, int option, int value) {
  return int_call(SYS_setsockopt, fd, level, option, &value, socklen_t{sizeof(value)});
}

int bind_ipv4(int fd, inet::Ipv4Address address, std::uint16_t port) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = boost::endian::native_to_big(port);
  std::memcpy(&place.sin_addr, address.bytes.data(), address.bytes.size());
  return int_call(SYS_bind, fd, &place, socklen_t{sizeof(place)});
}

long send_message(int fd, const msghdr& message) {
  return call(SYS_sendmsg, fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

long receive_message(int fd, msghdr& message) {
  return call(SYS_recvmsg, fd, &message, MSG_DONTWAIT);
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

Result<std::size_t, int> interface_mtu(const std::string& interface) {
  const auto socket = udp_socket();
  if (!socket) {
    return std::unexpected(socket.error());
  }
  ifreq request{};
  if (interface.size() >= sizeof(request.ifr_name)) {
    return std::unexpected(-ENODEV);
  }
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  if (const int result = int_call(SYS_ioctl, socket->get(), SIOCGIFMTU, &request); result < 0) {
    return std::unexpected(result);
  }
  return static_cast<std::size_t>(request.ifr_mtu);
}

}  // namespace verbena::ports::sys
