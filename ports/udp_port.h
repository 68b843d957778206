// The way to other hosts for everybody: RoCE v2 through UDP sockets, one for each address of the
// device, and one for each multicast group and interface.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "ports/fabric_ring.h"
#include "ports/interfaces.h"
#include "ports/network_port.h"
#include "ports/udp_batch.h"
#include "ports/udp_segments.h"
#include "ports/udp_socket.h"
#include "proto/packet_sink.h"

namespace verbena::ports {

/// Whether Linux sends what is for that group to others: not if the group is of the interface
/// itself (ff01::/16; RFC 4291, 2.7).
[[nodiscard]] bool leaves_host(const Gid& group);

class UdpPort final : public NetworkPort {
 public:
  /// Opens a socket for each address, which must be this host's. The error is a sentence.
  [[nodiscard]] static Result<std::unique_ptr<UdpPort>, std::string> open(
      std::span<const InterfaceAddress> addresses);

  // A frame from an address without a socket is lost.
  [[nodiscard]] MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override;
  [[nodiscard]] WayFields way_fields() const override;
  void commit(const PacketNote& note) override;
  void flush() override;

  std::uint32_t poll_receive(NetworkFrameHandler& handler, std::uint32_t frames_max) override;
  [[nodiscard]] bool pending() const override { return segments_.pending(); }

  void begin_batch(Time now) override { now_ = now; }
  [[nodiscard]] Time next_deadline() const override { return retry_at_; }
  [[nodiscard]] bool waits_for_room() const override { return blocked_ && retry_at_ == time_never; }
  [[nodiscard]] std::span<const int> descriptors() const override { return descriptors_; }

  [[nodiscard]] bool reaches_group(const FrameRoute& route) const override;
  [[nodiscard]] Result<void, std::string> join(const Gid& group) override;
  void leave(const Gid& group) override;
  [[nodiscard]] bool copies_to_all() const override { return false; }

  bool repair() override;
  void close() override;

  void add_to(PortStatistics& statistics) const override;

 private:
  explicit UdpPort(std::vector<UdpSocket> sockets);
  void note_descriptors();
  /// False if the batch has to wait.
  bool send_batch();
  [[nodiscard]] MutableBytes lose(std::size_t bytes);

  /// Those of addresses in front, then those of groups.
  std::vector<UdpSocket> sockets_;
  std::vector<int> descriptors_;
  Time now_{};

  UdpBatch batch_;
  /// The last reservation is not in the batch.
  bool losing_ = false;
  std::array<std::byte, frame_bytes_max> lost_frame_{};
  bool blocked_ = false;
  Time retry_at_ = time_never;

  UdpSegments segments_;
  std::size_t first_socket_ = 0;

  std::uint64_t frames_lost_ = 0;
  std::uint64_t frames_refused_ = 0;
  std::uint64_t times_blocked_ = 0;
};

}  // namespace verbena::ports
