// The way to other hosts by raw Ethernet: RoCE v1 and v2 as hardware sends them, on a network
// interface that the kernel goes on using. Needs CAP_NET_RAW.
//
// The headers are the NIC's own, from the Ethernet addresses on; the kernel tells those of peers
// (neighbours.h). Every process of the host has a socket of its own on the interface and gets a
// copy of every frame; it takes what is its own.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "ports/fabric_ring.h"
#include "ports/neighbours.h"
#include "ports/network_port.h"
#include "ports/raw_socket.h"
#include "proto/inet/mac_address.h"
#include "proto/packet_sink.h"

namespace verbena::ports {

/// The interface, by name and number, and its Ethernet address.
struct RawPlace {
  std::string device;
  std::string interface;
  unsigned interface_index = 0;
  inet::MacAddress mac{};
  std::optional<std::uint16_t> vlan{};
};

class RawPort final : public NetworkPort {
 public:
  /// The error is a sentence.
  [[nodiscard]] static Result<std::unique_ptr<RawPort>, std::string> open(const RawPlace& place);

  // A frame to a peer whose Ethernet address can't be found out is lost.
  [[nodiscard]] MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override;
  [[nodiscard]] WayFields way_fields() const override;
  void commit(const PacketNote& note) override;
  void flush() override;

  std::uint32_t poll_receive(NetworkFrameHandler& handler, std::uint32_t frames_max) override;
  [[nodiscard]] bool pending() const override { return false; }

  void begin_batch(Time now) override;
  [[nodiscard]] Time next_deadline() const override { return retry_at_; }
  [[nodiscard]] bool waits_for_room() const override { return is_full_; }
  [[nodiscard]] std::span<const int> descriptors() const override { return {&descriptor_, 1}; }

  [[nodiscard]] bool reaches_group(const FrameRoute& /*route*/) const override { return true; }
  [[nodiscard]] Result<void, std::string> join(const Gid& group) override;
  void leave(const Gid& group) override;
  [[nodiscard]] bool copies_to_all() const override { return true; }

  bool repair() override;
  void close() override { socket_.close(); }
  void add_to(PortStatistics& statistics) const override;

 private:
  RawPort(RawPlace place, RawSocket socket);
  /// Sends the frame that was committed; false if it has to wait.
  bool send_waiting();
  /// As the interface of a NIC would: to its own address, or to a group.
  [[nodiscard]] bool is_for_us(ByteView frame) const;

  RawPlace place_;
  RawSocket socket_;
  int descriptor_;
  Neighbours neighbours_;
  Time now_{};

  std::array<std::byte, frame_bytes_max> frame_{};
  std::size_t frame_bytes_ = 0;
  inet::MacAddress peer_{};
  /// The frame that is reserved goes nowhere.
  bool losing_ = false;
  /// The frame is committed, and not sent yet.
  bool is_waiting_ = false;
  bool is_full_ = false;
  Time retry_at_ = time_never;
  /// Groups that were joined, for a socket that has to be made anew.
  std::vector<inet::MacAddress> groups_;

  std::uint64_t frames_refused_ = 0;
  std::uint64_t frames_without_neighbour_ = 0;
  std::uint64_t times_blocked_ = 0;
};

}  // namespace verbena::ports
