#include "sim/switch.h"

#include "proto/roce/decap.h"

namespace verbena::sim {

void Switch::receive(FrameRef frame) {
  world_.queue.schedule(world_.now + latency_, *this, static_cast<std::uint64_t>(frame));
}

void Switch::on_event(Time now, std::uint64_t token) {
  const auto ref = static_cast<FrameRef>(token);
  const Frame& frame = world_.frames.at(ref);
  const auto parsed = roce::parse_frame(frame.bytes);
  const auto route = parsed ? routes_.find(parsed->destination) : routes_.end();
  if (route == routes_.end()) {
    world_.trace.lost(now, id(), frame, parsed ? "no route to the address" : "not a RoCE frame");
    world_.frames.give_back(ref);
    return;
  }
  route->second->send(ref);
}

}  // namespace verbena::sim
