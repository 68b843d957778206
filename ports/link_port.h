// The way to other hosts by a link (link.h) that no kernel knows of: RoCE v1 and v2, or TCP, in
// whole Ethernet frames, and a host that speaks for itself: it answers ARP, neighbour discovery and
// echo, and asks who has which Ethernet address (proto/inet/link_host.h).
//
//   NIC ◀──▶ LinkPort ◀──▶ Link ◀──▶ QEMU, another Verbena
//               │ ▲
//               ▼ │ ARP, neighbour discovery, echo
//             LinkHost
//
// While nobody is at the other end, frames wait for a few seconds, so that it doesn't matter which
// end starts first; then they are lost.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ports/fabric_ring.h"
#include "ports/link.h"
#include "ports/network_port.h"
#include "proto/inet/link_host.h"

namespace verbena::ports {

class LinkPort final : public NetworkPort {
 public:
  struct Place {
    std::string device;
    std::string link;
    inet::MacAddress mac{};
    /// With their subnets.
    std::vector<inet::LinkAddress> addresses;
    /// TCP is what the device speaks, and RoCE isn't.
    bool takes_tcp = false;
  };
  /// The error is a sentence that says what to do.
  [[nodiscard]] static Result<std::unique_ptr<LinkPort>, std::string> open(const Place& place);

  // A frame to a peer whose Ethernet address can't be found out is lost.
  [[nodiscard]] MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override;
  [[nodiscard]] WayFields way_fields() const override;
  void commit(const PacketNote& note) override;
  void flush() override { link_->flush(); }

  std::uint32_t poll_receive(NetworkFrameHandler& handler, std::uint32_t frames_max) override;
  [[nodiscard]] bool pending() const override { return link_->pending(); }

  void begin_batch(Time now) override;
  [[nodiscard]] Time next_deadline() const override;
  [[nodiscard]] bool waits_for_room() const override { return link_->waits_for_room(); }
  [[nodiscard]] std::span<const int> descriptors() const override { return link_->descriptors(); }

  // There is no filter for groups: what comes by the link is looked at.
  [[nodiscard]] bool reaches_group(const FrameRoute& /*route*/) const override { return true; }
  [[nodiscard]] Result<void, std::string> join(const Gid& /*group*/) override { return {}; }
  void leave(const Gid& /*group*/) override {}
  /// All there is: no other process has the link.
  [[nodiscard]] bool copies_to_all() const override { return true; }

  bool repair() override { return link_->repair(); }
  void close() override { link_->close(); }
  void add_to(PortStatistics& statistics) const override;

 private:
  class Speaker;

  LinkPort(const Place& place, std::unique_ptr<Link> link);

  /// Room for a frame that goes nowhere.
  [[nodiscard]] MutableBytes lose(std::size_t bytes, std::uint64_t& counter);
  [[nodiscard]] MutableBytes try_later();
  void take(ByteView frame, NetworkFrameHandler& handler, Speaker& speaker);
  /// The frame is of the kind that the device speaks.
  [[nodiscard]] std::optional<NetworkFrame> read(ByteView frame) const;
  void tell_link_is_out();
  void tell_unreachable(const Gid& destination);
  void tell_conflict();

  std::string device_;
  bool takes_tcp_;
  std::string name_;
  std::unique_ptr<Link> link_;
  inet::LinkHost host_;
  Time now_{};
  Time retry_at_ = time_never;
  /// Since when nobody is at the other end.
  std::optional<Time> down_since_;
  bool told_down_ = false;
  bool told_conflict_ = false;
  /// Peers that were told to be unreachable.
  std::set<Gid> told_;

  /// For frames that are lost.
  std::array<std::byte, frame_bytes_max> nowhere_{};
  inet::MacAddress peer_{};
  bool losing_ = false;

  std::uint64_t without_link_ = 0;
  std::uint64_t without_neighbour_ = 0;
  std::uint64_t ignored_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace verbena::ports
