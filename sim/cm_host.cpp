#include "sim/cm_host.h"

#include "base/check.h"

namespace verbena::sim {

CmHost::CmHost(Node& node, std::uint64_t seed)
    : node_(node), agent_({.ca_guid = node.nic().config().node_guid, .id_prefix = 0}, seed) {
  VERBENA_CHECK(gsi_.open(node.nic(), node.now()).has_value());
  node.set_service(this);
}

CmHost::~CmHost() {
  node_.set_service(nullptr);
  gsi_.close(node_.nic());
}

bool CmHost::serve(Time now) {
  bool any = receive(now);
  if (agent_.next_timeout() <= now) {
    agent_.on_timer(now);
    any = true;
  }
  any = hand_out_events() || any;
  return send(now) || any;
}

bool CmHost::receive(Time now) {
  bool any = false;
  while (gsi_.receive(*this)) {
    gsi_.replenish(node_.nic(), now);
    any = true;
  }
  return any;
}

void CmHost::on_mad(const ib::cm::Route& route, ByteView mad) {
  if (agent_.on_mad(node_.now(), route, mad) == ib::cm::MadVerdict::no_listener) {
    agent_.refuse(route, mad);
  }
}

bool CmHost::hand_out_events() {
  bool any = false;
  while (const auto event = agent_.poll_event()) {
    any = true;
    if (application_ != nullptr) {
      application_->on_cm_event(node_, *event);
    }
  }
  return any;
}

bool CmHost::send(Time now) {
  bool any = false;
  while (const auto outgoing = agent_.poll_transmit()) {
    any = true;
    // QP1's send queue holds far more than an agent sends at once.
    VERBENA_CHECK(gsi_.send(node_.nic(), now, *outgoing));
  }
  return any;
}

}  // namespace verbena::sim
