// The way of our own TCP's segments (own_tcp.h) to and from a port of frames. Stands between an
// iWARP device's TcpPort and whatever is in front of its link: faults, capture.
//
//   TcpPort ◀──▶ OwnTcpPort ◀──▶ faults, capture ◀──▶ HostPort ◀──▶ LinkPort
//      ▲              ▲
//      │ sockets      │ segments, time
//      └─── OwnTcp ───┘
#pragma once

#include <memory>

#include "ports/own_tcp.h"
#include "ports/port_decorator.h"

namespace verbena::ports {

class OwnTcpPort final : public PortDecorator {
 public:
  OwnTcpPort(std::unique_ptr<Port> inner, std::shared_ptr<OwnTcp> tcp);

  /// Frames are for the TCP, all of them: `handler` hears of none.
  std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t frames_max) override;
  void flush() override;
  void begin_batch(Time now) override;
  [[nodiscard]] Time next_deadline() const override;
  [[nodiscard]] PortStatistics statistics() const override;

 private:
  class Receiver;
  class Sender;

  std::shared_ptr<OwnTcp> tcp_;
  Time now_{};
};

}  // namespace verbena::ports
