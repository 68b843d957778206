// Frames under way in a simulated world. Buffers are kept and used again: in the steady state a
// packet costs no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "proto/packet_sink.h"

namespace verbena::sim {

/// Position of a station (host, peer or switch) in its simulation, from 0.
enum class StationId : std::uint32_t {};

struct Frame {
  /// Counts from 1 in the order of sending. Copies that a fault makes share it.
  std::uint64_t id = 0;
  StationId origin{};
  PacketNote note;
  std::vector<std::byte> bytes;
};

/// Names a frame of a FramePool.
enum class FrameRef : std::uint32_t {};

class FramePool {
 public:
  [[nodiscard]] FrameRef take() {
    if (free_.empty()) {
      frames_.push_back(std::make_unique<Frame>());
      return FrameRef{static_cast<std::uint32_t>(frames_.size() - 1)};
    }
    const FrameRef ref = free_.back();
    free_.pop_back();
    return ref;
  }
  [[nodiscard]] FrameRef copy(FrameRef from) {
    const FrameRef to = take();
    at(to) = at(from);
    return to;
  }
  void give_back(FrameRef ref) { free_.push_back(ref); }

  [[nodiscard]] Frame& at(FrameRef ref) {
    const auto index = static_cast<std::size_t>(ref);
    VERBENA_CHECK(index < frames_.size());
    return *frames_[index];
  }

  /// Frames taken and not given back.
  [[nodiscard]] std::size_t in_use() const { return frames_.size() - free_.size(); }

 private:
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<FrameRef> free_;
};

}  // namespace verbena::sim
