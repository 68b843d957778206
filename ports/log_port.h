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

#include "ports/port.h"

namespace verbena::ports {

/// A frame in a line: "SEND_ONLY PSN 0x000064, 8 bytes, from 127.0.0.1 to 127.0.0.1 QP 0x001000".
[[nodiscard]] std::string describe_frame(ByteView frame);

class LogPort final : public Port {
 public:
  LogPort(std::unique_ptr<Port> inner, std::string device_name);

  MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override;
  [[nodiscard]] WayFields way_fields() const override { return inner_->way_fields(); }
  void commit(const PacketNote& note) override;
  std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t frames_max) override;
  void flush() override { inner_->flush(); }
  bool prepare_sleep() override { return inner_->prepare_sleep(); }
  void finish_sleep() override { inner_->finish_sleep(); }
  [[nodiscard]] int fd() const override { return inner_->fd(); }
  void wake() override { inner_->wake(); }
  void begin_batch(Time now) override { inner_->begin_batch(now); }
  [[nodiscard]] Time next_deadline() const override { return inner_->next_deadline(); }
  void remark(std::string_view what) override;
  void record_lost(ByteView frame, std::string_view what) override;
  [[nodiscard]] PortStatistics statistics() const override { return inner_->statistics(); }
  void abandon() override { inner_->abandon(); }

 private:
  class Tap;

  std::unique_ptr<Port> inner_;
  std::string device_name_;
  ByteView reserved_;
  /// For the frame that is sent next, or that is being received.
  std::string remark_;
};

}  // namespace verbena::ports
