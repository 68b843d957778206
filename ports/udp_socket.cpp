#include "ports/udp_socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include <array>
#include <boost/endian/conversion.hpp>
#include <cerrno>
#include <cstring>

#include "ports/sys_net.h"
#include "proto/roce/encap.h"

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

/// Without these it would not be RoCE, or could not be shared.
constexpr std::array needed_options = {
    Option{SOL_SOCKET, SO_REUSEPORT, 1},
    Option{IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO},
    Option{IPPROTO_IP, IP_RECVTOS, 1},
    Option{IPPROTO_IP, IP_RECVTTL, 1},
};

/// With these it is fast. An old kernel lacks UDP_GRO (Linux 5.0).
constexpr std::array wanted_options = {
    Option{IPPROTO_UDP, UDP_GRO, 1},
    Option{SOL_SOCKET, SO_RCVBUF, receive_buffer_bytes},
    Option{SOL_SOCKET, SO_SNDBUF, send_buffer_bytes},
};

int set_options(int fd) {
  for (const Option& option : needed_options) {
    if (const int result = sys::set_option(fd, option.level, option.name, option.value);
        result < 0) {
      return result;
    }
  }
  for (const Option& option : wanted_options) {
    static_cast<void>(sys::set_option(fd, option.level, option.name, option.value));
  }
  return 0;
}

Result<sys::Fd, int> bound_socket(inet::Ipv4Address address) {
  auto socket = sys::udp_socket();
  if (!socket) {
    return socket;
  }
  int result = set_options(socket->get());
  if (result == 0) {
    result = sys::bind_ipv4(socket->get(), address, roce::udp_port);
  }
  if (result < 0) {
    return std::unexpected(result);
  }
  return socket;
}

std::string advice(inet::Ipv4Address address, int error) {
  const std::string place = fmt::format("UDP port {} of {}", roce::udp_port, address.to_text());
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

ino_t inode_of(int fd) {
  struct stat status{};
  return sys::fstat(fd, status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
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
    if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_TOS) {
      arrival.traffic_class = static_cast<std::uint8_t>(value);
    } else if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_TTL) {
      arrival.hop_limit = static_cast<std::uint8_t>(value);
    } else if (header->cmsg_level == IPPROTO_UDP && header->cmsg_type == UDP_GRO && value > 0) {
      arrival.segment_bytes = static_cast<std::size_t>(value);
    }
  }
}

}  // namespace

Result<UdpSocket, std::string> UdpSocket::open(inet::Ipv4Address address) {
  auto socket = bound_socket(address);
  if (!socket) {
    return std::unexpected(advice(address, -socket.error()));
  }
  const ino_t inode = inode_of(socket->get());
  return UdpSocket(address, std::move(*socket), inode);
}

int UdpSocket::send(const UdpBatch& batch) const {
  const UdpDestination& destination = batch.destination();
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = boost::endian::native_to_big(roce::udp_port);
  std::memcpy(&peer.sin_addr, destination.peer.bytes.data(), destination.peer.bytes.size());
  ControlBuffer control;
  control.add<int>(IPPROTO_IP, IP_TOS, destination.traffic_class);
  control.add<int>(IPPROTO_IP, IP_TTL, destination.hop_limit);
  if (batch.frames() > 1) {
    control.add(IPPROTO_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(batch.segment_bytes()));
  }
  msghdr message{};
  message.msg_name = &peer;
  message.msg_namelen = sizeof(peer);
  // sendmsg() doesn't write to what it gathers; its type is only that of recvmsg().
  message.msg_iov = const_cast<iovec*>(batch.payloads().data());
  message.msg_iovlen = batch.frames();
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.used;
  const long sent = sys::send_message(socket_.get(), message);
  return sent < 0 ? static_cast<int>(sent) : 0;
}

std::optional<UdpArrival> UdpSocket::receive(MutableBytes buffer) const {
  sockaddr_in peer{};
  iovec place{.iov_base = buffer.data(), .iov_len = buffer.size()};
  ControlBuffer control;
  msghdr message{};
  message.msg_name = &peer;
  message.msg_namelen = sizeof(peer);
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  const long received = sys::receive_message(socket_.get(), message);
  if (received < 0 || peer.sin_family != AF_INET) {
    return std::nullopt;
  }
  UdpArrival arrival;
  std::memcpy(arrival.peer.bytes.data(), &peer.sin_addr, arrival.peer.bytes.size());
  arrival.peer_port = boost::endian::big_to_native(peer.sin_port);
  arrival.bytes = static_cast<std::size_t>(received);
  arrival.segment_bytes = std::max<std::size_t>(arrival.bytes, 1);
  read_control(message, arrival);
  return arrival;
}

bool UdpSocket::repair() {
  if (socket_ && inode_of(socket_.get()) == inode_) {
    return false;
  }
  socket_.release();  // Whatever has this number now is not ours to close.
  if (auto fresh = bound_socket(address_)) {
    socket_ = std::move(*fresh);
    inode_ = inode_of(socket_.get());
  }
  return true;
}

}  // namespace verbena::ports
