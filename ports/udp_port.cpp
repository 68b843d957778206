#include "ports/udp_port.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/check.h"
#include "proto/roce/encap.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

using namespace std::chrono_literals;

/// The kernel doesn't tell when it has memory again, or an interface's queue room.
constexpr Duration out_of_memory_pause = 100us;

}  // namespace

Result<UdpPort, std::string> UdpPort::open(std::span<const inet::Ipv4Address> addresses) {
  std::vector<UdpSocket> sockets;
  for (const inet::Ipv4Address address : addresses) {
    auto socket = UdpSocket::open(address);
    if (!socket) {
      return std::unexpected(std::move(socket.error()));
    }
    sockets.push_back(std::move(*socket));
  }
  return UdpPort(std::move(sockets));
}

MutableBytes UdpPort::lose(std::size_t bytes) {
  losing_ = true;
  return MutableBytes(lost_frame_).first(bytes);
}

MutableBytes UdpPort::reserve(const FrameRoute& route, std::size_t bytes) {
  VERBENA_CHECK(bytes > udp_frame_prefix_bytes && bytes <= frame_bytes_max);
  const auto source = roce::ipv4_from_gid(route.source);
  const auto peer = roce::ipv4_from_gid(route.destination);
  const auto socket = std::ranges::find(sockets_, source, &UdpSocket::address);
  if (!peer || socket == sockets_.end()) {
    return lose(bytes);
  }
  const UdpDestination destination{
      .socket = static_cast<std::size_t>(socket - sockets_.begin()),
      .peer = *peer,
      .traffic_class = route.traffic_class,
      .hop_limit = route.hop_limit,
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

void UdpPort::commit() {
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

std::uint32_t UdpPort::poll_receive(UdpFrameHandler& handler, std::uint32_t frames_max) {
  std::uint32_t received = 0;
  std::size_t idle_sockets = 0;
  while (received < frames_max && idle_sockets < sockets_.size()) {
    if (segments_.pending()) {
      const auto frame = segments_.next();
      handler.on_udp_frame(frame.bytes, frame.icrc_is_good);
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
