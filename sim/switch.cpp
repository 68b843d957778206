#include "sim/switch.h"

#include "proto/inet/tcp/frame.h"
#include "proto/roce/decap.h"
#include "proto/roce/gid.h"

namespace verbena::sim {

namespace {

std::optional<Gid> destination_of(ByteView frame) {
  if (const auto tcp = inet::parse_tcp_frame(frame)) {
    return roce::gid_from_ipv6(tcp->destination);
  }
  const auto parsed = roce::parse_frame(frame);
  return parsed ? std::optional(parsed->destination) : std::nullopt;
}

}  // namespace

void Switch::receive(FrameRef frame) {
  world_.queue.schedule(world_.now + latency_, *this, static_cast<std::uint64_t>(frame));
}

void Switch::on_event(Time now, std::uint64_t token) {
  const auto ref = static_cast<FrameRef>(token);
  const Frame& frame = world_.frames.at(ref);
  const auto destination = destination_of(frame.bytes);
  const auto route = destination ? routes_.find(*destination) : routes_.end();
  if (route == routes_.end()) {
    world_.trace.lost(now, id(), frame,
                      destination ? "no route to the address" : "not a RoCE frame");
    world_.frames.give_back(ref);
    return;
  }
  route->second->send(ref);
}

}  // namespace verbena::sim
