// A port in front of a port that tells what passes, for VERBENA_LOG=debug and trace: what is sent
// again and why, NAKs in both directions, what faults did; with `trace` every frame. Without these
// levels there is none.
//
//     NIC ◀──▶ faults ◀──▶ log ◀──▶ capture ◀──▶ fabric, UDP
//
// What became of a received frame is not known here, behind the faults: the engine tells that.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ports/port_decorator.h"

namespace verbena::ports {

/// A frame in a line: "SEND_ONLY PSN 0x000064, 8 bytes, from 127.0.0.1 to 127.0.0.1 QP 0x001000".
[[nodiscard]] std::string describe_frame(ByteView frame);

class LogPort final : public PortDecorator {
 public:
  LogPort(std::unique_ptr<Port> inner, std::string device_name);

  MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override;
  void commit(const PacketNote& note) override;
  std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t frames_max) override;
  void remark(std::string_view what) override;
  void record_lost(ByteView frame, std::string_view what) override;

 private:
  class Tap;

  std::string device_name_;
  ByteView reserved_;
  /// For the frame that is sent next, or that is being received.
  std::string remark_;
};

}  // namespace verbena::ports
