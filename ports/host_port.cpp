#include "ports/host_port.h"

#include <fmt/format.h>

#include <algorithm>

#include "ports/sys_net.h"
#include "proto/ib_bth/headers.h"
#include "proto/inet/headers.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

Result<std::unique_ptr<HostPort>, std::string> HostPort::open(
    std::unique_ptr<FabricPort> fabric, std::span<const inet::Ipv4Address> addresses,
    const std::vector<InterfaceAddress>& host) {
  std::vector<inet::Ipv4Address> outside;
  std::ranges::copy_if(addresses, std::back_inserter(outside),
                       [](inet::Ipv4Address address) { return !address.is_loopback(); });
  auto udp = UdpPort::open(outside);
  if (!udp) {
    return std::unexpected(std::move(udp.error()));
  }
  auto epoll = sys::epoll();
  if (!epoll) {
    return std::unexpected(
        fmt::format("can't make an epoll descriptor: {}", sys::error_text(-epoll.error())));
  }
  return std::unique_ptr<HostPort>(
      new HostPort(std::move(fabric), std::move(*udp), std::move(*epoll), host));
}

HostPort::HostPort(std::unique_ptr<FabricPort> fabric, UdpPort udp, sys::Fd epoll,
                   const std::vector<InterfaceAddress>& host)
    : fabric_(std::move(fabric)), udp_(std::move(udp)), epoll_(std::move(epoll)) {
  for (const InterfaceAddress& item : host) {
    local_.push_back(roce::gid_from_ipv4(item.address));
  }
  static_cast<void>(sys::epoll_watch(epoll_.get(), fabric_->fd(), EPOLLIN));
}

MutableBytes HostPort::reserve(const FrameRoute& route, std::size_t bytes) {
  const auto address = roce::ipv4_from_gid(route.destination);
  // A group is one of this host's processes only.
  const bool is_local = route.destination_qpn == qpn_multicast ||
                        (address && address->is_loopback()) ||
                        std::ranges::find(local_, route.destination) != local_.end();
  reserved_for_udp_ = !is_local;
  return is_local ? fabric_->reserve(route, bytes) : udp_.reserve(route, bytes);
}

WayFields HostPort::way_fields() const {
  return reserved_for_udp_ ? udp_.way_fields() : fabric_->way_fields();
}

void HostPort::commit(const PacketNote& note) {
  if (reserved_for_udp_) {
    udp_.commit();
  } else {
    fabric_->commit(note);
  }
}

std::uint32_t HostPort::poll_receive(FrameHandler& handler, std::uint32_t frames_max) {
  const std::uint32_t local = fabric_->poll_receive(handler, frames_max);
  handler_ = &handler;
  return local + udp_.poll_receive(*this, frames_max - local);
}

void HostPort::on_udp_frame(ByteView frame, bool icrc_is_good) {
  // What is corrupt may name any queue pair: it is counted here, whosever it was.
  if (const auto route = icrc_is_good ? route_to_others(frame) : std::nullopt) {
    hand_over(frame, *route);
  } else if (icrc_is_good) {
    handler_->on_proved_frame(frame);
  } else {
    handler_->on_frame(frame);
  }
}

std::optional<FrameRoute> HostPort::route_to_others(ByteView frame) const {
  if (frame.size() < udp_frame_prefix_bytes + ib::bth_bytes || frame.size() > frame_bytes_max) {
    return std::nullopt;
  }
  const auto ip = read_struct<inet::Ipv4Header>(frame.subspan(inet::ethernet_header_bytes));
  const Qpn qpn = read_struct<ib::Bth>(frame.subspan(udp_frame_prefix_bytes)).dest_qpn();
  const FrameRoute route{.source = roce::gid_from_ipv4(ip.source),
                         .destination = roce::gid_from_ipv4(ip.destination),
                         .destination_qpn = qpn,
                         .may_be_lost = true};
  if (qpn == qpn_gsi) {
    // This process may be one of those that have QPN 1: it gets its copy as the others do.
    return route;
  }
  const SlotLife owner = fabric_->fabric().owner_of(qpn);
  const bool is_foreign = owner != SlotLife{} && owner != fabric_->fabric().self();
  return is_foreign ? std::optional(route) : std::nullopt;
}

void HostPort::hand_over(ByteView frame, const FrameRoute& route) {
  const MutableBytes room = fabric_->reserve(route, frame.size());
  if (room.empty()) {
    ++not_handed_over_;
    return;
  }
  copy_bytes(room, frame);
  fabric_->commit({});
  ++handed_over_;
}

void HostPort::begin_batch(Time now) {
  fabric_->begin_batch(now);
  udp_.begin_batch(now);
}

void HostPort::flush() {
  fabric_->flush();
  udp_.flush();
}

bool HostPort::prepare_sleep() {
  repair();
  if (udp_.pending() || !fabric_->prepare_sleep()) {
    return false;
  }
  // The doorbell may be a new one since the last time.
  static_cast<void>(sys::epoll_watch(epoll_.get(), fabric_->fd(), EPOLLIN));
  watch_sockets(true);
  return true;
}

void HostPort::finish_sleep() {
  fabric_->finish_sleep();
  if (watching_frames_) {
    watch_sockets(false);
  }
}

void HostPort::watch_sockets(bool for_frames) {
  std::uint32_t events = for_frames ? EPOLLIN : 0U;
  if (for_frames && udp_.waits_for_room()) {
    events |= EPOLLOUT;
  }
  for (const UdpSocket& socket : udp_.sockets()) {
    static_cast<void>(sys::epoll_watch(epoll_.get(), socket.fd(), events));
  }
  watching_frames_ = for_frames;
}

void HostPort::repair() {
  if (!udp_.repair()) {
    return;
  }
  // Descriptors are closed all at once, so the epoll set is gone as well.
  static_cast<void>(epoll_.release());
  if (auto fresh = sys::epoll()) {
    epoll_ = std::move(*fresh);
  }
}

PortStatistics HostPort::statistics() const {
  PortStatistics statistics = fabric_->statistics();
  udp_.add_to(statistics);
  statistics.frames_handed_over = handed_over_;
  statistics.frames_not_handed_over = not_handed_over_;
  return statistics;
}

void HostPort::abandon() {
  fabric_->abandon();
  udp_.close();
  epoll_.reset();
}

}  // namespace verbena::ports
