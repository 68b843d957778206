// The port of a device into the host fabric: sends each frame into the ring of the process that
// owns the destination QPN, and receives from the rings of all processes that have one to us. A
// process reaches its own QPs through a ring to itself. A frame that has no owner (fabric.h) goes
// to all that want it: none of them gets it before all of them have room.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "ports/fabric.h"
#include "ports/port.h"

namespace verbena::ports {

class FabricPort final : public Port {
 public:
  explicit FabricPort(std::unique_ptr<Fabric> fabric);

  [[nodiscard]] Fabric& fabric() { return *fabric_; }
  /// Whether a process of this host wants frames to that group, or to QPN 1 of that address.
  [[nodiscard]] bool has_audience(const Gid& gid) { return !audience_of(gid).empty(); }

  MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override;
  void commit(const PacketNote& note) override;
  [[nodiscard]] bool is_unread(const FrameRoute& route) override;
  std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t frames_max) override;
  void flush() override;
  bool prepare_sleep() override;
  void finish_sleep() override;
  [[nodiscard]] int fd() const override { return fabric_->doorbell().fd(); }
  void wake() override { fabric_->doorbell().ring_self(); }
  void begin_batch(Time now) override;
  void set_membership(const nic::Membership& membership) override;
  [[nodiscard]] Time next_deadline() const override { return next_loss_; }
  [[nodiscard]] PortStatistics statistics() const override { return statistics_; }
  void abandon() override { fabric_->doorbell().close(); }

 private:
  /// With VERBENA_LOG=info: a ring to or from another process comes or goes.
  void tell(std::string_view what, SlotLife other) const;

  struct OutRing {
    RingMapping mapping;
    RingProducer producer;
    /// In unflushed_.
    bool unflushed = false;
    bool counted_as_blocked = false;
    /// When a blocked ring is worth asking the kernel whether its consumer lives.
    Time next_liveness_check{};
    Time blocked_since{};
    /// How far the consumer was when it was asked for last, and since when it has been there.
    std::optional<std::uint64_t> last_taken{};
    Time standing_since{};
    /// How far it was when it was asked for first since it had nothing to read; and how often it
    /// was asked for, and had read on, since it has read all that was there then.
    std::optional<std::uint64_t> first_taken{};
    std::uint32_t asked_in_vain = 0;
  };
  struct InRing {
    RingMapping mapping;
    RingConsumer consumer;
    /// The producer has made a newer ring: this one goes when it is empty.
    bool superseded = false;
  };

  /// The processes that want frames to a GID, as of a number of changes.
  struct Audience {
    std::uint32_t as_of = 0;
    std::vector<SlotLife> members;
  };
  /// A copy of the frame that is reserved, for another ring.
  struct Copy {
    OutRing* ring = nullptr;
    MutableBytes frame;
  };

  [[nodiscard]] const std::vector<SlotLife>& audience_of(const Gid& gid);
  [[nodiscard]] MutableBytes reserve_for_all(const FrameRoute& route, std::size_t bytes);
  void commit_to(OutRing& ring);

  [[nodiscard]] OutRing* out_ring_to(SlotLife consumer);
  [[nodiscard]] OutRing* make_out_ring(SlotLife consumer);
  void drop_out_ring(OutRing& ring);
  /// A full ring: true if the frame has to wait, false if its consumer is dead, or has not drained
  /// the ring for so long that a frame that may be lost is.
  [[nodiscard]] bool waits_for(OutRing& ring, bool may_be_lost);
  /// Room for a frame that nobody will see.
  [[nodiscard]] MutableBytes lose(std::size_t bytes);

  void map_announced_rings();
  /// What we sent to ourselves, as a copy of a MAD: first, since another ring may have the answer.
  std::uint32_t receive_own(FrameHandler& handler, std::uint32_t frames_max);
  std::uint32_t receive_from(InRing& ring, FrameHandler& handler, std::uint32_t frames_max);
  void give_room_back(InRing& ring);
  /// Unmaps rings whose other side has gone, incoming ones only when they are empty.
  void drop_stale_rings();

  std::unique_ptr<Fabric> fabric_;
  Time now_{};
  PortStatistics statistics_;

  std::array<std::unique_ptr<OutRing>, slots_max> out_rings_;
  std::vector<std::uint32_t> unflushed_;
  OutRing* reserved_ = nullptr;
  MutableBytes reserved_frame_;
  std::vector<Copy> copies_;
  std::map<Gid, Audience> audiences_;
  /// When the next frame that waits is lost.
  Time next_loss_ = time_never;
  std::array<std::byte, frame_bytes_max> lost_frame_{};
  Time next_ring_attempt_{};
  bool ring_failure_reported_ = false;

  std::vector<std::unique_ptr<InRing>> in_rings_;
  std::size_t first_in_ring_ = 0;
  std::uint32_t polls_until_cleanup_ = 0;
};

}  // namespace verbena::ports
