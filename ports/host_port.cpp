#include "ports/host_port.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "ports/fabric_ring.h"
#include "ports/log.h"
#include "ports/sys_net.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

Result<std::unique_ptr<HostPort>, std::string> HostPort::open(
    std::string_view device, std::unique_ptr<FabricPort> fabric,
    std::unique_ptr<NetworkPort> network, std::span<const InterfaceAddress> host) {
  auto epoll = sys::epoll();
  if (!epoll) {
    return std::unexpected(
        fmt::format("can't make an epoll descriptor: {}", sys::error_text(-epoll.error())));
  }
  return std::unique_ptr<HostPort>(
      new HostPort(device, std::move(fabric), std::move(network), std::move(*epoll), host));
}

HostPort::HostPort(std::string_view device, std::unique_ptr<FabricPort> fabric,
                   std::unique_ptr<NetworkPort> network, sys::Fd epoll,
                   std::span<const InterfaceAddress> host)
    : device_(device),
      fabric_(std::move(fabric)),
      network_(std::move(network)),
      epoll_(std::move(epoll)) {
  std::ranges::transform(host, std::back_inserter(local_), &InterfaceAddress::address);
  static_cast<void>(sys::epoll_watch(epoll_.get(), fabric_->fd(), EPOLLIN));
}

HostPort::Way HostPort::way_of(const FrameRoute& route) {
  if (route.destination_qpn != qpn_multicast) {
    const bool is_local = roce::is_loopback(route.destination) ||
                          std::ranges::find(local_, route.destination) != local_.end();
    return is_local ? Way::fabric : Way::network;
  }
  if (!network_->reaches_group(route)) {
    tell_out_of_reach(route);
    return Way::fabric;
  }
  return fabric_->has_audience(route.destination) ? Way::both : Way::network;
}

void HostPort::tell_out_of_reach(const FrameRoute& route) {
  if (std::exchange(told_out_of_reach_, true)) {
    return;
  }
  report(fmt::format(
      "{}: datagrams from {} to the group {} reach programs of this host only; use an "
      "address of the group's kind, and no group of the scope ff01::",
      device_, roce::to_address_text(route.source), roce::to_address_text(route.destination)));
}

MutableBytes HostPort::reserve(const FrameRoute& route, std::size_t bytes) {
  way_ = way_of(route);
  if (way_ == Way::fabric) {
    return fabric_->reserve(route, bytes);
  }
  to_network_ = network_->reserve(route, bytes);
  if (way_ == Way::both && !to_network_.empty()) {
    to_fabric_ = fabric_->reserve(route, bytes);
    return to_fabric_.empty() ? MutableBytes() : to_network_;
  }
  return to_network_;
}

WayFields HostPort::way_fields() const {
  return way_ == Way::fabric ? fabric_->way_fields() : network_->way_fields();
}

void HostPort::commit(const PacketNote& note) {
  if (way_ == Way::both) {
    copy_bytes(to_fabric_, to_network_);
  }
  if (way_ != Way::network) {
    fabric_->commit(note);
  }
  if (way_ != Way::fabric) {
    network_->commit(note);
  }
}

bool HostPort::is_unread(const FrameRoute& route) {
  return way_of(route) == Way::fabric && fabric_->is_unread(route);
}

void HostPort::set_membership(const nic::Membership& membership) {
  fabric_->set_membership(membership);
  if (!roce::is_multicast(membership.gid)) {
    return;
  }
  if (!membership.joined) {
    network_->leave(membership.gid);
  } else if (const auto joined = network_->join(membership.gid); !joined) {
    report(
        fmt::format("{}: can't join the group {} on the network, so that only programs of this "
                    "host reach its members: {}",
                    device_, roce::to_address_text(membership.gid), joined.error()));
  } else if (watching_frames_) {
    // Somebody sleeps already, and shall hear of the new descriptors as well.
    watch_network(true);
  }
}

std::uint32_t HostPort::poll_receive(FrameHandler& handler, std::uint32_t frames_max) {
  const std::uint32_t local = fabric_->poll_receive(handler, frames_max);
  handler_ = &handler;
  return local + network_->poll_receive(*this, frames_max - local);
}

void HostPort::on_network_frame(const NetworkFrame& frame) {
  // What is corrupt may name any queue pair: it is counted here, whosever it was.
  if (!frame.icrc_is_good || !is_for_others(frame.route)) {
    take(frame);
  } else if (!network_->copies_to_all()) {
    hand_over(frame);
  }
}

void HostPort::take(const NetworkFrame& frame) {
  if (frame.icrc_is_good) {
    handler_->on_proved_frame(frame.bytes);
  } else {
    handler_->on_frame(frame.bytes);
  }
}

bool HostPort::is_for_others(const FrameRoute& route) {
  if (route.destination_qpn == qpn_gsi) {
    // This process may be one of those that have QPN 1: it gets its copy as the others do.
    return !network_->copies_to_all();
  }
  const SlotLife owner = fabric_->fabric().owner_of(route.destination_qpn);
  return owner != SlotLife{} && owner != fabric_->fabric().self();
}

void HostPort::hand_over(const NetworkFrame& frame) {
  if (frame.bytes.size() > frame_bytes_max) {
    ++not_handed_over_;
    return;
  }
  FrameRoute route = frame.route;
  route.may_be_lost = true;
  const MutableBytes room = fabric_->reserve(route, frame.bytes.size());
  if (room.empty()) {
    ++not_handed_over_;
    return;
  }
  copy_bytes(room, frame.bytes);
  fabric_->commit({});
  ++handed_over_;
}

void HostPort::begin_batch(Time now) {
  fabric_->begin_batch(now);
  network_->begin_batch(now);
}

void HostPort::flush() {
  fabric_->flush();
  network_->flush();
}

bool HostPort::prepare_sleep() {
  repair();
  if (network_->pending() || !fabric_->prepare_sleep()) {
    return false;
  }
  // The doorbell may be a new one since the last time.
  static_cast<void>(sys::epoll_watch(epoll_.get(), fabric_->fd(), EPOLLIN));
  watch_network(true);
  return true;
}

void HostPort::finish_sleep() {
  fabric_->finish_sleep();
  if (watching_frames_) {
    watch_network(false);
  }
}

void HostPort::watch_network(bool for_frames) {
  std::uint32_t events = for_frames ? EPOLLIN : 0U;
  if (for_frames && network_->waits_for_room()) {
    events |= EPOLLOUT;
  }
  for (const int descriptor : network_->descriptors()) {
    static_cast<void>(sys::epoll_watch(epoll_.get(), descriptor, events));
  }
  watching_frames_ = for_frames;
}

void HostPort::repair() {
  if (!network_->repair()) {
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
  network_->add_to(statistics);
  statistics.frames_handed_over = handed_over_;
  statistics.frames_not_handed_over = not_handed_over_;
  return statistics;
}

void HostPort::abandon() {
  fabric_->abandon();
  network_->close();
  epoll_.reset();
}

}  // namespace verbena::ports
