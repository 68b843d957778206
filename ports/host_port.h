// The port of a device that is bound to a network interface or address: what is local to this host
// goes through the fabric, all else through the network.
//
//                      ┌── FabricPort  ◀──▶ processes of this host
//     NIC ◀──▶ HostPort│        ▲
//                      │        │ frames that came for another process
//                      └── NetworkPort ◀──▶ other hosts
//
// Of all processes behind one address, one receives what a given peer sends, if the kernel has it
// so. It hands to the others what is theirs; a frame to QPN 1 to all that have it open. A frame to
// a multicast group goes both ways: to the members of this host, and to the network, which doesn't
// bring it back.
//
// One descriptor to sleep on: an epoll set of doorbell and sockets. The sockets are in it only
// while somebody sleeps for frames, as it is with the doorbell: a socket has no sender that could
// be told not to ring.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ports/fabric_port.h"
#include "ports/interfaces.h"
#include "ports/network_port.h"

namespace verbena::ports {

class HostPort final : public Port, private NetworkFrameHandler {
 public:
  /// `host` is what counts as local. The error is a sentence.
  [[nodiscard]] static Result<std::unique_ptr<HostPort>, std::string> open(
      std::string_view device, std::unique_ptr<FabricPort> fabric,
      std::unique_ptr<NetworkPort> network, std::span<const InterfaceAddress> host);

  MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override;
  [[nodiscard]] WayFields way_fields() const override;
  void commit(const PacketNote& note) override;
  [[nodiscard]] bool is_unread(const FrameRoute& route) override;
  std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t frames_max) override;
  void flush() override;
  bool prepare_sleep() override;
  void finish_sleep() override;
  [[nodiscard]] int fd() const override { return epoll_.get(); }
  void wake() override { fabric_->wake(); }
  void begin_batch(Time now) override;
  [[nodiscard]] Time next_deadline() const override {
    return std::min(fabric_->next_deadline(), network_->next_deadline());
  }
  [[nodiscard]] PortStatistics statistics() const override;
  void abandon() override;

 private:
  enum class Way : std::uint8_t { fabric, network, both };

  HostPort(std::string_view device, std::unique_ptr<FabricPort> fabric,
           std::unique_ptr<NetworkPort> network, sys::Fd epoll,
           std::span<const InterfaceAddress> host);

  [[nodiscard]] Way way_of(const FrameRoute& route);
  /// Once, for a group that other hosts won't hear of.
  void tell_out_of_reach(const FrameRoute& route);
  void on_network_frame(const NetworkFrame& frame) override;
  void on_aside(ByteView frame, FrameWay way) override { handler_->on_aside(frame, way); }
  /// The frame is for this process.
  void take(const NetworkFrame& frame);
  [[nodiscard]] bool is_for_others(const FrameRoute& route);
  void hand_over(const NetworkFrame& frame);
  void set_membership(const nic::Membership& membership) override;
  void watch_network(bool for_frames);
  /// Makes the descriptors anew that the program closed.
  void repair();

  std::string device_;
  std::unique_ptr<FabricPort> fabric_;
  std::unique_ptr<NetworkPort> network_;
  sys::Fd epoll_;
  /// What counts as local.
  std::vector<Gid> local_;
  /// Where the frame that is reserved goes, and its room on both ways.
  Way way_ = Way::fabric;
  MutableBytes to_network_;
  MutableBytes to_fabric_;
  /// Set during poll_receive().
  FrameHandler* handler_ = nullptr;
  bool watching_frames_ = false;
  bool told_out_of_reach_ = false;
  std::uint64_t handed_over_ = 0;
  std::uint64_t not_handed_over_ = 0;
};

}  // namespace verbena::ports
