// The port of a device into the host fabric: sends each frame into the ring of the process that
// owns the destination QPN, and receives from the rings of all processes that have one to us. A
// process reaches its own QPs through a ring to itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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

  MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override;
  void commit(const PacketNote& note) override;
  std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t frames_max) override;
  void flush() override;
  bool prepare_sleep() override;
  void finish_sleep() override;
  [[nodiscard]] int fd() const override { return fabric_->doorbell().fd(); }
  void wake() override { fabric_->doorbell().ring_self(); }
  void begin_batch(Time now) override { now_ = now; }
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
  };
  struct InRing {
    RingMapping mapping;
    RingConsumer consumer;
    /// The producer has made a newer ring: this one goes when it is empty.
    bool superseded = false;
  };

  [[nodiscard]] OutRing* out_ring_to(SlotLife consumer);
  [[nodiscard]] OutRing* make_out_ring(SlotLife consumer);
  void drop_out_ring(OutRing& ring);
  /// A full ring: either the frame waits (empty), or its consumer is dead and it is lost.
  [[nodiscard]] MutableBytes wait_or_lose(std::size_t bytes);
  /// Room for a frame that nobody will see.
  [[nodiscard]] MutableBytes lose(std::size_t bytes);

  void map_announced_rings();
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
  std::array<std::byte, frame_bytes_max> lost_frame_{};
  Time next_ring_attempt_{};
  bool ring_failure_reported_ = false;

  std::vector<std::unique_ptr<InRing>> in_rings_;
  std::size_t first_in_ring_ = 0;
  std::uint32_t polls_until_cleanup_ = 0;
};

}  // namespace verbena::ports
