// A port in front of a port whose ICRCs are not what the specification wants: wrong ones are sent,
// or those that come are not checked (icrc_mode.h). It stands next to the NIC, so that a capture
// shows what the network carries.
#pragma once

#include <memory>

#include "ports/icrc_mode.h"
#include "ports/port_decorator.h"

namespace verbena::ports {

class IcrcPort final : public PortDecorator {
 public:
  IcrcPort(std::unique_ptr<Port> inner, IcrcSent sent, IcrcCheck check);

  MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override;
  void commit(const PacketNote& note) override;
  std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t frames_max) override;
  [[nodiscard]] PortStatistics statistics() const override;

 private:
  class Tap;

  IcrcSent sent_;
  IcrcCheck check_;
  MutableBytes reserved_;
  std::uint64_t wrong_ = 0;
};

}  // namespace verbena::ports
