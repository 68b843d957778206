// The port of a device that is bound to a network interface or address: what is local to this host
// goes through the fabric, all else through UDP.
//
//                      ┌── FabricPort ◀──▶ processes of this host
//     NIC ◀──▶ HostPort│        ▲
//                      │        │ frames that came for another process
//                      └── UdpPort    ◀──▶ other hosts
//
// Of all processes behind one address, one receives what a given peer sends, as the kernel has it.
// It hands to the others what is theirs; a frame to QPN 1 to all that have it open.
//
// One descriptor to sleep on: an epoll set of doorbell and sockets. The sockets are in it only
// while somebody sleeps for frames, as it is with the doorbell: a socket has no sender that could
// be told not to ring.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ports/fabric_port.h"
#include "ports/interfaces.h"
#include "ports/udp_port.h"

namespace verbena::ports {

class HostPort final : public Port, private UdpFrameHandler {
 public:
  /// Opens the sockets for those of `addresses` that other hosts can reach; at least one. `host` is
  /// what counts as local. The error is a sentence.
  [[nodiscard]] static Result<std::unique_ptr<HostPort>, std::string> open(
      std::unique_ptr<FabricPort> fabric, std::span<const inet::Ipv4Address> addresses,
      const std::vector<InterfaceAddress>& host);

  MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override;
  [[nodiscard]] WayFields way_fields() const override;
  void commit(const PacketNote& note) override;
  std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t frames_max) override;
  void flush() override;
  bool prepare_sleep() override;
  void finish_sleep() override;
  [[nodiscard]] int fd() const override { return epoll_.get(); }
  void wake() override { fabric_->wake(); }
  void begin_batch(Time now) override;
  [[nodiscard]] Time next_deadline() const override { return udp_.next_deadline(); }
  [[nodiscard]] PortStatistics statistics() const override;
  void abandon() override;

 private:
  HostPort(std::unique_ptr<FabricPort> fabric, UdpPort udp, sys::Fd epoll,
           const std::vector<InterfaceAddress>& host);

  void on_udp_frame(ByteView frame, bool icrc_is_good) override;
  /// Where a frame from the network goes within this host; nullopt if this process takes it.
  [[nodiscard]] std::optional<FrameRoute> route_to_others(ByteView frame) const;
  void hand_over(ByteView frame, const FrameRoute& route);
  void set_membership(const nic::Membership& membership) override {
    fabric_->set_membership(membership);
  }
  void watch_sockets(bool for_frames);
  /// Makes the descriptors anew that the program closed.
  void repair();

  std::unique_ptr<FabricPort> fabric_;
  UdpPort udp_;
  sys::Fd epoll_;
  /// Addresses of this host's interfaces.
  std::vector<Gid> local_;
  /// Where the frame that is reserved goes.
  bool reserved_for_udp_ = false;
  /// Set during poll_receive().
  FrameHandler* handler_ = nullptr;
  bool watching_frames_ = false;
  std::uint64_t handed_over_ = 0;
  std::uint64_t not_handed_over_ = 0;
};

}  // namespace verbena::ports
