// A switch: forwards frames by their destination address, stores and forwards, drops at the tail of
// a full queue and marks congestion if its links are told to.
#pragma once

#include <map>

#include "base/time.h"
#include "proto/gid.h"
#include "sim/channel.h"
#include "sim/event_queue.h"
#include "sim/world.h"

namespace verbena::sim {

class Switch final : public Station, public EventHandler {
 public:
  /// `latency` passes between a frame's arrival and its place in the queue of the next link.
  Switch(World& world, StationId id, std::string name, Duration latency)
      : Station(world, id, std::move(name)), latency_(latency) {}

  /// Frames to that address leave by that channel. The last one told for an address holds.
  void add_route(const Gid& destination, Channel& channel) { routes_[destination] = &channel; }

  [[nodiscard]] bool is_host() const override { return false; }
  void receive(FrameRef frame) override;
  void on_event(Time now, std::uint64_t token) override;

 private:
  Duration latency_;
  std::map<Gid, Channel*> routes_;
};

}  // namespace verbena::sim
