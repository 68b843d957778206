#include "ports/udp_socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include <array>
#include <boost/endian/conversion.hpp>
#include <cerrno>
#include <cstring>
#include <span>

#include "ports/socket_address.h"
#include "ports/sys_net.h"
#include "proto/roce/encap.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

/// What a peer may have under way to us: windows of a few queue pairs. The kernel gives less if
/// net.core.rmem_max says so.
constexpr int receive_buffer_bytes = 8 << 20;
constexpr int send_buffer_bytes = 2 << 20;

struct Option {
  int level;
  int name;
  int value;
};

/// IPV6_FLOWINFO of linux/in6.h, which doesn't go together with netinet/in.h.
constexpr int ipv6_flow_info = 11;

/// IPv6 and GRH: what of the first word is the label.
constexpr std::uint32_t flow_label_mask = 0xF'FFFF;

/// Without these it would not be RoCE, or could not be shared.
constexpr std::array needed_for_ipv4 = {
    Option{SOL_SOCKET, SO_REUSEPORT, 1},     Option{IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO},
    Option{IPPROTO_IP, IP_RECVTOS, 1},       Option{IPPROTO_IP, IP_RECVTTL, 1},
    Option{IPPROTO_IP, IP_MULTICAST_ALL, 0},
};
constexpr std::array needed_for_ipv6 = {
    Option{SOL_SOCKET, SO_REUSEPORT, 1},
    Option{IPPROTO_IPV6, IPV6_V6ONLY, 1},
    Option{IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO},
    Option{IPPROTO_IPV6, IPV6_RECVTCLASS, 1},
    Option{IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1},
    // Hardware sends no UDP checksum, which IPv6 allows if both ends agree (RFC 6936; IBTA vol 1,
    // A17.3.2).
    Option{IPPROTO_UDP, UDP_NO_CHECK6_RX, 1},
};

/// With these it is fast, or tells more. An old kernel lacks UDP_GRO (Linux 5.0).
constexpr std::array wanted_options = {
    Option{IPPROTO_UDP, UDP_GRO, 1},
    Option{SOL_SOCKET, SO_RCVBUF, receive_buffer_bytes},
    Option{SOL_SOCKET, SO_SNDBUF, send_buffer_bytes},
};
constexpr std::array wanted_for_ipv6 = {
    Option{IPPROTO_IPV6, ipv6_flow_info, 1},
    Option{IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0},
    // The address may still be under test (RFC 4862, 5.4) when the program starts.
    Option{IPPROTO_IPV6, IPV6_FREEBIND, 1},
};

int set_options(int fd, std::span<const Option> options) {
  for (const Option& option : options) {
    if (const int result = sys::set_option(fd, option.level, option.name, option.value);
        result < 0) {
      return result;
    }
  }
  return 0;
}

int set_all_options(int fd, int family) {
  const auto needed = family == AF_INET6 ? std::span<const Option>(needed_for_ipv6)
                                         : std::span<const Option>(needed_for_ipv4);
  for (const Option& option : wanted_options) {
    static_cast<void>(set_options(fd, {&option, 1}));
  }
  if (family == AF_INET6) {
    for (const Option& option : wanted_for_ipv6) {
      static_cast<void>(set_options(fd, {&option, 1}));
    }
  }
  return set_options(fd, needed);
}

/// A group's socket hears one interface only, so that a datagram comes once.
int take_part(int fd, const InterfaceAddress& place, const std::optional<Gid>& group) {
  if (!group) {
    return sys::send_groups_by(fd, family_of(place.address), place.interface_index);
  }
  // Linux 5.7 lets everybody; before, an IPv6 group on two interfaces of a device comes twice.
  static_cast<void>(
      sys::set_option(fd, SOL_SOCKET, SO_BINDTOIFINDEX, static_cast<int>(place.interface_index)));
  return sys::join_group(fd, *group, place.interface_index);
}

Result<sys::Fd, int> bound_socket(const InterfaceAddress& place, const std::optional<Gid>& group) {
  const int family = family_of(place.address);
  auto socket = sys::udp_socket(family);
  if (!socket) {
    return socket;
  }
  int result = set_all_options(socket->get(), family);
  if (result == 0) {
    const Gid& address = group ? *group : place.address;
    result =
        sys::bind_to(socket->get(), socket_address(address, roce::udp_port, place.interface_index));
  }
  // Who sends to no group can do without an interface that they leave by.
  if (result == 0 && place.interface_index != 0) {
    result = take_part(socket->get(), place, group);
  }
  if (result < 0) {
    return std::unexpected(result);
  }
  return socket;
}

std::string advice(const Gid& address, int error) {
  const std::string place =
      fmt::format("UDP port {} of {}", roce::udp_port, roce::to_address_text(address));
  switch (error) {
    case EADDRINUSE:
      return fmt::format(
          "{} is in use: by programs of another user, or by the kernel's rdma_rxe. `ss -uapn sport "
          "= {}` tells; choose another address",
          place, roce::udp_port);
    case EADDRNOTAVAIL:
      return fmt::format("can't open {}: the address is gone from this host", place);
    case EACCES:
    case EPERM:
      return fmt::format("can't open {}: this system doesn't allow it ({})", place,
                         sys::error_text(error));
    default:
      return fmt::format("can't open {}: {}", place, sys::error_text(error));
  }
}

/// The ancillary data of a message, in order. Big enough for all that we send and receive.
struct alignas(cmsghdr) ControlBuffer {
  std::array<char, 4 * CMSG_SPACE(sizeof(int))> bytes{};
  std::size_t used = 0;

  template <class T>
  void add(int level, int type, T value) {
    cmsghdr header{.cmsg_len = CMSG_LEN(sizeof(T)), .cmsg_level = level, .cmsg_type = type};
    std::memcpy(bytes.data() + used, &header, sizeof(header));
    std::memcpy(bytes.data() + used + CMSG_LEN(0), &value, sizeof(value));
    used += CMSG_SPACE(sizeof(T));
  }
};

int int_of(const cmsghdr* header) {
  // IP_TOS comes as one byte, the others as an int.
  if (header->cmsg_len < CMSG_LEN(sizeof(int))) {
    return *CMSG_DATA(header);
  }
  int value = 0;
  std::memcpy(&value, CMSG_DATA(header), sizeof(value));
  return value;
}

void read_control(msghdr& message, UdpArrival& arrival) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    const int value = int_of(header);
    const auto is = [&](int level, int type) {
      return header->cmsg_level == level && header->cmsg_type == type;
    };
    if (is(IPPROTO_IP, IP_TOS) || is(IPPROTO_IPV6, IPV6_TCLASS)) {
      arrival.traffic_class = static_cast<std::uint8_t>(value);
    } else if (is(IPPROTO_IP, IP_TTL) || is(IPPROTO_IPV6, IPV6_HOPLIMIT)) {
      arrival.hop_limit = static_cast<std::uint8_t>(value);
    } else if (is(IPPROTO_IPV6, ipv6_flow_info)) {
      const auto word = static_cast<std::uint32_t>(value);
      arrival.flow_label = boost::endian::big_to_native(word) & flow_label_mask;
    } else if (is(IPPROTO_UDP, UDP_GRO) && value > 0) {
      arrival.segment_bytes = static_cast<std::size_t>(value);
    }
  }
}

void add_header_fields(ControlBuffer& control, const UdpDestination& destination, bool is_ipv4) {
  if (is_ipv4) {
    control.add<int>(IPPROTO_IP, IP_TOS, destination.traffic_class);
    control.add<int>(IPPROTO_IP, IP_TTL, destination.hop_limit);
    return;
  }
  control.add<int>(IPPROTO_IPV6, IPV6_TCLASS, destination.traffic_class);
  control.add<int>(IPPROTO_IPV6, IPV6_HOPLIMIT, destination.hop_limit);
  if (destination.flow_label != 0) {
    control.add(IPPROTO_IPV6, ipv6_flow_info,
                boost::endian::native_to_big(destination.flow_label & flow_label_mask));
  }
}

}  // namespace

UdpSocket::UdpSocket(InterfaceAddress place, const std::optional<Gid>& group, sys::Fd socket)
    : place_(std::move(place)),
      group_(group),
      socket_(std::move(socket)),
      inode_(sys::socket_inode(socket_.get())) {}

Result<UdpSocket, std::string> UdpSocket::open(const InterfaceAddress& place) {
  return open(place, std::nullopt);
}

Result<UdpSocket, std::string> UdpSocket::open_group(const InterfaceAddress& place,
                                                     const Gid& group) {
  return open(place, group);
}

Result<UdpSocket, std::string> UdpSocket::open(const InterfaceAddress& place,
                                               const std::optional<Gid>& group) {
  auto socket = bound_socket(place, group);
  if (!socket) {
    return std::unexpected(advice(group.value_or(place.address), -socket.error()));
  }
  return UdpSocket(place, group, std::move(*socket));
}

int UdpSocket::send(const UdpBatch& batch) const {
  UdpDestination destination = batch.destination();
  const int result = send(batch, destination);
  if (result != -EINVAL || destination.flow_label == 0) {
    return result;
  }
  // Flow labels must be asked for before Linux 5.3, and where a program has one for itself alone.
  destination.flow_label = 0;
  return send(batch, destination);
}

int UdpSocket::send(const UdpBatch& batch, const UdpDestination& destination) const {
  SocketAddress peer = socket_address(destination.peer, roce::udp_port, place_.interface_index);
  ControlBuffer control;
  add_header_fields(control, destination, peer.storage.ss_family == AF_INET);
  if (batch.frames() > 1) {
    control.add(IPPROTO_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(batch.segment_bytes()));
  }
  msghdr message{};
  message.msg_name = peer.get();
  message.msg_namelen = peer.bytes;
  // sendmsg() doesn't write to what it gathers; its type is only that of recvmsg().
  message.msg_iov = const_cast<iovec*>(batch.payloads().data());
  message.msg_iovlen = batch.frames();
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.used;
  const long sent = sys::send_message(socket_.get(), message);
  return sent < 0 ? static_cast<int>(sent) : 0;
}

std::optional<UdpArrival> UdpSocket::receive(MutableBytes buffer) const {
  SocketAddress peer;
  iovec place{.iov_base = buffer.data(), .iov_len = buffer.size()};
  ControlBuffer control;
  msghdr message{};
  message.msg_name = peer.get();
  message.msg_namelen = peer.bytes;
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  const long received = sys::receive_message(socket_.get(), message);
  const auto address = received < 0 ? std::nullopt : address_of(*peer.get());
  // An IPv6 packet may name a mapped address as its source (Linux 5.4 drops such).
  if (!address || family_of(*address) != family_of(place_.address)) {
    return std::nullopt;
  }
  UdpArrival arrival;
  arrival.peer = *address;
  arrival.peer_port = port_of(peer);
  arrival.bytes = static_cast<std::size_t>(received);
  arrival.segment_bytes = std::max<std::size_t>(arrival.bytes, 1);
  read_control(message, arrival);
  return arrival;
}

bool UdpSocket::repair() {
  if (socket_ && sys::socket_inode(socket_.get()) == inode_) {
    return false;
  }
  socket_.release();  // Whatever has this number now is not ours to close.
  if (auto fresh = bound_socket(place_, group_)) {
    socket_ = std::move(*fresh);
    inode_ = sys::socket_inode(socket_.get());
  }
  return true;
}

}  // namespace verbena::ports
