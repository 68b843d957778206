// A simulated world: build it, let time run, look at what happened. The same seed and the same
// calls give the same trace and the same captures, on every machine and with every compiler.
//
//     Simulation world(seed);
//     Node& client = world.add_node({.name = "client", .gid = ...});
//     Node& server = world.add_node({.name = "server", .gid = ...});
//     world.connect(client, server, LinkConfig{});
//     ... commands to client.nic(), then client.drive() ...
//     world.run_until(Time(Duration(1'000'000)));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "faults/rule.h"
#include "sim/capture.h"
#include "sim/channel.h"
#include "sim/node.h"
#include "sim/raw_peer.h"
#include "sim/switch.h"
#include "sim/trace.h"
#include "sim/world.h"

namespace verbena::sim {

/// The two directions of a link.
struct Link {
  Channel* forward = nullptr;
  Channel* backward = nullptr;
  void set_up(bool up) const {
    forward->set_up(up);
    backward->set_up(up);
  }
};

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : seed_(seed), world_(seed) {}

  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  [[nodiscard]] Time now() const { return world_.now; }
  [[nodiscard]] Trace& trace() { return world_.trace; }
  [[nodiscard]] faults::FaultInjector& faults() { return world_.faults; }
  /// Events that have happened, and those that wait.
  [[nodiscard]] std::uint64_t events_done() const { return events_done_; }
  [[nodiscard]] std::size_t events_pending() const { return world_.queue.size(); }

  // Building. Stations live as long as the simulation.
  Node& add_node(const NodeConfig& config);
  RawPeer& add_raw_peer(std::string name, const Gid& gid, nic::GidEntry::Type encapsulation);
  Switch& add_switch(std::string name, Duration latency);
  /// Links two stations. A host or peer has one link; a switch learns the addresses of hosts that
  /// it is linked to.
  template <class A, class B>
  Link connect(A& a, B& b, const LinkConfig& config) {
    const Link link{&add_channel(config, a, b), &add_channel(config, b, a)};
    join(a, *link.forward, b);
    join(b, *link.backward, a);
    return link;
  }
  /// Frames at the stations of those names go to the capture from now on: what hosts and peers send
  /// and receive, what switches pass on. Without names, those of all hosts and peers. False if
  /// there is no station of a name. The capture must outlive the simulation's running.
  [[nodiscard]] bool set_capture(Capture& capture, const std::vector<std::string>& taps);
  void set_observer(FrameObserver* observer) { world_.observer = observer; }

  [[nodiscard]] const std::vector<std::unique_ptr<Station>>& stations() const { return stations_; }
  [[nodiscard]] std::string_view name_of(StationId id) const {
    return stations_[static_cast<std::size_t>(id)]->name();
  }

  // Running.
  /// Something that happens at a time; the handler must live until then.
  void schedule(Time time, EventHandler& handler, std::uint64_t token) {
    world_.queue.schedule(time, handler, token);
  }
  /// The next event; false if there is none.
  bool step();
  /// All events up to and including `end`; afterwards now() is `end`.
  void run_until(Time end);

 private:
  Channel& add_channel(const LinkConfig& config, Station& from, Station& to);
  static void join(Node& node, Channel& channel, const Station&) { node.attach(channel); }
  static void join(RawPeer& peer, Channel& channel, const Station&) { peer.attach(channel); }
  static void join(Switch& hub, Channel& channel, const Node& node) {
    for (const nic::GidEntry& row : node.gids()) {
      hub.add_route(row.gid, channel);
    }
  }
  static void join(Switch& hub, Channel& channel, const RawPeer& peer) {
    hub.add_route(peer.gid(), channel);
  }
  [[nodiscard]] StationId next_id() const {
    return StationId{static_cast<std::uint32_t>(stations_.size())};
  }

  std::uint64_t seed_;
  World world_;
  std::vector<std::unique_ptr<Station>> stations_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::uint64_t events_done_ = 0;
};

}  // namespace verbena::sim
