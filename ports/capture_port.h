// A port in front of a port that writes what passes into a capture: frames in both directions, with
// comments on what a plain capture can't tell: that a request is a retransmission and why, and
// that a received frame was dropped or refused and by which check.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "pcap/record.h"
#include "ports/capture_file.h"
#include "ports/port_decorator.h"

namespace verbena::ports {

/// What a capture says about a sent packet; empty for a plain one.
[[nodiscard]] std::string describe(const PacketNote& note);

class CapturePort final : public PortDecorator {
 public:
  /// `name` and `description` are the interface's in the capture.
  CapturePort(std::unique_ptr<Port> inner, std::shared_ptr<CaptureFile> file, std::string_view name,
              std::string_view description);
  ~CapturePort() override;

  MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override;
  void commit(const PacketNote& note) override;
  std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t frames_max) override;
  bool prepare_sleep() override;
  void begin_batch(Time now) override;
  void remark(std::string_view what) override { remark_ = what; }
  void record_lost(ByteView frame, std::string_view what) override;
  void abandon() override;

 private:
  class Tap;
  void record(ByteView frame, pcap::Direction direction, std::string_view comment);

  std::shared_ptr<CaptureFile> file_;
  pcap::InterfaceId interface_;
  Time now_{};
  Time next_flush_{};
  ByteView reserved_;
  /// For the frame that is recorded next.
  std::string remark_;
};

}  // namespace verbena::ports
