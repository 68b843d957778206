#include "sim/simulation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "proto/roce/gid.h"

namespace verbena::sim {

Node& Simulation::add_node(const NodeConfig& config) {
  const StationId id = next_id();
  auto node = std::make_unique<Node>(world_, id, config, seed_ + static_cast<std::uint64_t>(id));
  Node& added = *node;
  stations_.push_back(std::move(node));
  return added;
}

RawPeer& Simulation::add_raw_peer(std::string name, const Gid& gid,
                                  nic::GidEntry::Type encapsulation) {
  auto peer = std::make_unique<RawPeer>(world_, next_id(), std::move(name), gid, encapsulation);
  RawPeer& added = *peer;
  stations_.push_back(std::move(peer));
  return added;
}

Switch& Simulation::add_switch(std::string name, Duration latency) {
  auto hub = std::make_unique<Switch>(world_, next_id(), std::move(name), latency);
  Switch& added = *hub;
  stations_.push_back(std::move(hub));
  return added;
}

Channel& Simulation::add_channel(const LinkConfig& config, Station& from, Station& to) {
  channels_.push_back(std::make_unique<Channel>(world_, config, from, to));
  return *channels_.back();
}

bool Simulation::set_capture(Capture& capture, const std::vector<std::string>& taps) {
  std::size_t found = 0;
  for (const auto& station : stations_) {
    const bool is_named = std::ranges::find(taps, station->name()) != taps.end();
    found += is_named ? 1 : 0;
    if (!is_named && (!taps.empty() || !station->is_host())) {
      continue;
    }
    std::string address;
    if (const auto* node = dynamic_cast<const Node*>(station.get())) {
      address = roce::to_text(node->gid());
    } else if (const auto* peer = dynamic_cast<const RawPeer*>(station.get())) {
      address = roce::to_text(peer->gid());
    }
    capture.add_station(station->id(), station->name(), address);
  }
  world_.capture = &capture;
  return found == taps.size();
}

bool Simulation::step() {
  if (world_.queue.empty()) {
    return false;
  }
  const Event event = world_.queue.pop();
  VERBENA_CHECK(event.time >= world_.now);
  world_.now = event.time;
  ++events_done_;
  event.handler->on_event(event.time, event.token);
  return true;
}

void Simulation::run_until(Time end) {
  while (world_.queue.next_time() <= end) {
    step();
  }
  world_.now = end;
}

}  // namespace verbena::sim
