#include "ports/raw_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/check.h"
#include "ports/network_frame.h"
#include "proto/inet/headers.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

using namespace std::chrono_literals;

/// How often the kernel is asked for a neighbour that has not answered yet.
constexpr Duration neighbour_pause = 1ms;
/// The kernel doesn't tell when an interface's queue has room again.
constexpr Duration out_of_memory_pause = 100us;

}  // namespace

Result<std::unique_ptr<RawPort>, std::string> RawPort::open(const RawPlace& place) {
  auto socket = RawSocket::open(place.interface, place.vlan);
  if (!socket) {
    return std::unexpected(std::move(socket.error()));
  }
  return std::unique_ptr<RawPort>(new RawPort(place, std::move(*socket)));
}

RawPort::RawPort(RawPlace place, RawSocket socket)
    : place_(std::move(place)),
      socket_(std::move(socket)),
      descriptor_(socket_.fd()),
      neighbours_(place_.device, place_.interface_index) {}

void RawPort::begin_batch(Time now) {
  now_ = now;
  if (retry_at_ <= now) {
    retry_at_ = time_never;
  }
}

MutableBytes RawPort::reserve(const FrameRoute& route, std::size_t bytes) {
  VERBENA_CHECK(bytes <= frame_.size());
  if (is_waiting_ && !send_waiting()) {
    return {};
  }
  const Neighbours::Answer peer = neighbours_.find(route.destination, now_);
  if (peer.kind == Neighbours::Answer::Kind::pending) {
    retry_at_ = std::min(retry_at_, now_ + neighbour_pause);
    return {};
  }
  losing_ = peer.kind == Neighbours::Answer::Kind::unreachable;
  peer_ = peer.mac;
  frame_bytes_ = bytes;
  return MutableBytes(frame_).first(bytes);
}

WayFields RawPort::way_fields() const {
  return {.destination_mac = peer_.bytes, .source_mac = place_.mac.bytes};
}

void RawPort::commit(const PacketNote& /*note*/) {
  if (losing_) {
    ++frames_without_neighbour_;
    return;
  }
  is_waiting_ = true;
  send_waiting();
}

void RawPort::flush() {
  if (is_waiting_) {
    send_waiting();
  }
}

bool RawPort::send_waiting() {
  const int result = socket_.send(ByteView(frame_).first(frame_bytes_));
  const bool out_of_memory = result == -ENOBUFS || result == -ENOMEM;
  if (out_of_memory || result == -EAGAIN) {
    times_blocked_ += is_full_ ? 0 : 1;
    is_full_ = true;
    if (out_of_memory) {
      retry_at_ = std::min(retry_at_, now_ + out_of_memory_pause);
    }
    return false;
  }
  // The interface is down, the frame too long: as if the network had lost it.
  frames_refused_ += result < 0 ? 1 : 0;
  is_waiting_ = false;
  is_full_ = false;
  return true;
}

bool RawPort::is_for_us(ByteView frame) const {
  if (frame.size() < inet::ethernet_header_bytes) {
    return false;
  }
  const auto header = read_struct<inet::EthernetHeader>(frame);
  return header.destination == place_.mac || header.destination.is_group();
}

std::uint32_t RawPort::poll_receive(NetworkFrameHandler& handler, std::uint32_t frames_max) {
  std::uint32_t received = 0;
  while (received < frames_max) {
    const ByteView frame = socket_.receive();
    if (frame.empty()) {
      break;
    }
    ++received;
    if (is_for_us(frame)) {
      handler.on_network_frame(read_network_frame(frame).value_or(NetworkFrame{.bytes = frame}));
    }
  }
  return received;
}

Result<void, std::string> RawPort::join(const Gid& group) {
  const auto mac = roce::multicast_mac(group);
  VERBENA_CHECK(mac.has_value());
  if (const int result = socket_.set_group(*mac, true); result < 0) {
    return std::unexpected(sys::error_text(-result));
  }
  groups_.push_back(*mac);
  return {};
}

void RawPort::leave(const Gid& group) {
  const auto mac = roce::multicast_mac(group);
  VERBENA_CHECK(mac.has_value());
  // Groups may share an Ethernet address; the kernel counts, and so does the list.
  if (const auto place = std::ranges::find(groups_, *mac); place != groups_.end()) {
    groups_.erase(place);
    static_cast<void>(socket_.set_group(*mac, false));
  }
}

bool RawPort::repair() {
  if (socket_.is_intact()) {
    return false;
  }
  socket_.abandon();
  if (auto fresh = RawSocket::open(place_.interface, place_.vlan)) {
    socket_ = std::move(*fresh);
    descriptor_ = socket_.fd();
    for (const inet::MacAddress& mac : groups_) {
      static_cast<void>(socket_.set_group(mac, true));
    }
  }
  return true;
}

void RawPort::add_to(PortStatistics& statistics) const {
  statistics.frames_lost += frames_refused_ + frames_without_neighbour_;
  statistics.frames_refused += frames_refused_;
  statistics.frames_without_neighbour += frames_without_neighbour_;
  statistics.times_blocked += times_blocked_;
}

}  // namespace verbena::ports
