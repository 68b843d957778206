#include "ports/udp_port.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>

#include "base/check.h"
#include "ports/socket_address.h"
#include "proto/roce/encap.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

using namespace std::chrono_literals;

/// The kernel doesn't tell when it has memory again, or an interface's queue room.
constexpr Duration out_of_memory_pause = 100us;

}  // namespace

Result<std::unique_ptr<UdpPort>, std::string> UdpPort::open(
    std::span<const InterfaceAddress> addresses) {
  std::vector<UdpSocket> sockets;
  for (const InterfaceAddress& place : addresses) {
    auto socket = UdpSocket::open(place);
    if (!socket) {
      return std::unexpected(std::move(socket.error()));
    }
    sockets.push_back(std::move(*socket));
  }
  return std::unique_ptr<UdpPort>(new UdpPort(std::move(sockets)));
}

UdpPort::UdpPort(std::vector<UdpSocket> sockets) : sockets_(std::move(sockets)) {
  note_descriptors();
}

void UdpPort::note_descriptors() {
  descriptors_.clear();
  std::ranges::transform(sockets_, std::back_inserter(descriptors_), &UdpSocket::fd);
}

bool leaves_host(const Gid& group) {
  constexpr unsigned scope_mask = 0x0F;
  constexpr unsigned scope_interface_local = 1;
  const auto ipv6 = roce::ipv6_from_gid(group);
  return !ipv6.is_multicast() || (ipv6.bytes[1] & scope_mask) > scope_interface_local;
}

bool UdpPort::reaches_group(const FrameRoute& route) const {
  return leaves_host(route.destination) &&
         family_of(route.source) == family_of(route.destination) &&
         std::ranges::any_of(sockets_, [&](const UdpSocket& socket) {
           return !socket.is_group() && socket.address() == route.source;
         });
}

Result<void, std::string> UdpPort::join(const Gid& group) {
  std::vector<UdpSocket> joined;
  for (const UdpSocket& socket : sockets_) {
    const InterfaceAddress& place = socket.place();
    // Several addresses of an interface are one way in.
    const bool is_there = std::ranges::any_of(joined, [&](const UdpSocket& other) {
      return other.place().interface_index == place.interface_index;
    });
    if (socket.is_group() || is_there || family_of(place.address) != family_of(group)) {
      continue;
    }
    auto receiver = UdpSocket::open_group(place, group);
    if (!receiver) {
      return std::unexpected(std::move(receiver.error()));
    }
    joined.push_back(std::move(*receiver));
  }
  std::ranges::move(joined, std::back_inserter(sockets_));
  note_descriptors();
  return {};
}

void UdpPort::leave(const Gid& group) {
  std::erase_if(sockets_, [&](const UdpSocket& socket) {
    return socket.is_group() && socket.address() == group;
  });
  note_descriptors();
}

MutableBytes UdpPort::lose(std::size_t bytes) {
  losing_ = true;
  return MutableBytes(lost_frame_).first(bytes);
}

MutableBytes UdpPort::reserve(const FrameRoute& route, std::size_t bytes) {
  VERBENA_CHECK(bytes <= frame_bytes_max);
  const auto socket = std::ranges::find(sockets_, route.source, &UdpSocket::address);
  const bool is_ipv4 = family_of(route.destination) == AF_INET;
  if (socket == sockets_.end() || is_ipv4 != (family_of(route.source) == AF_INET)) {
    return lose(bytes);
  }
  const UdpDestination destination{
      .socket = static_cast<std::size_t>(socket - sockets_.begin()),
      .peer = route.destination,
      .traffic_class = route.traffic_class,
      .hop_limit = route.hop_limit,
      .flow_label = is_ipv4 ? 0 : route.flow_label,
  };
  if (!batch_.takes(destination, bytes) && !send_batch()) {
    return {};
  }
  losing_ = false;
  return batch_.reserve(destination, bytes);
}

WayFields UdpPort::way_fields() const {
  return {.identification = losing_ ? std::uint16_t{0} : batch_.identification(),
          .udp_source_port = roce::udp_port};
}

void UdpPort::commit(const PacketNote& /*note*/) {
  if (losing_) {
    ++frames_lost_;
  } else {
    batch_.commit();
  }
}

void UdpPort::flush() {
  if (!batch_.empty()) {
    send_batch();
  }
}

bool UdpPort::send_batch() {
  if (now_ < retry_at_ && retry_at_ != time_never) {
    return false;
  }
  const int result = sockets_[batch_.destination().socket].send(batch_);
  const bool out_of_memory = result == -ENOBUFS || result == -ENOMEM;
  if (out_of_memory || result == -EAGAIN) {
    times_blocked_ += blocked_ ? 0 : 1;
    blocked_ = true;
    retry_at_ = out_of_memory ? now_ + out_of_memory_pause : time_never;
    return false;
  }
  blocked_ = false;
  retry_at_ = time_never;
  if (result < 0) {
    // No way to that host, a datagram too long for the way, a firewall: as if the network had lost
    // it. EIO: the interface can't cut, because it leaves checksums to us (udp(7)).
    frames_refused_ += batch_.frames();
    if (result == -EIO) {
      batch_.stop_cutting();
    }
  }
  batch_.clear();
  return true;
}

std::uint32_t UdpPort::poll_receive(NetworkFrameHandler& handler, std::uint32_t frames_max) {
  std::uint32_t received = 0;
  std::size_t idle_sockets = 0;
  while (received < frames_max && idle_sockets < sockets_.size()) {
    if (segments_.pending()) {
      handler.on_network_frame(segments_.next());
      ++received;
      continue;
    }
    // Taking turns, so that a busy address doesn't starve the rest.
    const UdpSocket& socket = sockets_[first_socket_++ % sockets_.size()];
    if (const auto arrival = socket.receive(segments_.room())) {
      segments_.begin(*arrival, socket.address());
      idle_sockets = 0;
    } else {
      ++idle_sockets;
    }
  }
  return received;
}

bool UdpPort::repair() {
  bool lost = false;
  for (UdpSocket& socket : sockets_) {
    lost = socket.repair() || lost;
  }
  note_descriptors();
  return lost;
}

void UdpPort::close() {
  for (UdpSocket& socket : sockets_) {
    socket.close();
  }
}

void UdpPort::add_to(PortStatistics& statistics) const {
  statistics.frames_lost += frames_lost_ + frames_refused_;
  statistics.frames_refused += frames_refused_;
  statistics.times_blocked += times_blocked_;
}

}  // namespace verbena::ports
