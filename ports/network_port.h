// A way to other hosts: half of a port, which host_port.h puts beside the fabric.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "ports/port.h"
#include "proto/packet_sink.h"

namespace verbena::ports {

/// A frame that came from another host.
struct NetworkFrame {
  ByteView bytes;
  /// The port has computed the ICRC, and it is right.
  bool icrc_is_good = false;
  /// From whom to whom, if it is good.
  FrameRoute route{};
};

class NetworkFrameHandler {
 public:
  virtual ~NetworkFrameHandler() = default;
  virtual void on_network_frame(const NetworkFrame& frame) = 0;
  /// See FrameHandler::on_aside().
  virtual void on_aside(ByteView frame, FrameWay way) = 0;
};

class NetworkPort : public FrameSink {
 public:
  /// Sends what is committed, as far as the kernel takes it.
  virtual void flush() = 0;
  virtual std::uint32_t poll_receive(NetworkFrameHandler& handler, std::uint32_t frames_max) = 0;
  /// Part of what the kernel gave has not been handed out yet.
  [[nodiscard]] virtual bool pending() const = 0;

  virtual void begin_batch(Time now) = 0;
  /// When to try again what could not be done and nobody will tell of.
  [[nodiscard]] virtual Time next_deadline() const = 0;
  /// Frames wait until a descriptor is writable.
  [[nodiscard]] virtual bool waits_for_room() const = 0;
  /// Readable when there is something to receive.
  [[nodiscard]] virtual std::span<const int> descriptors() const = 0;

  /// Whether frames of that route, which are for a group, can leave at all.
  [[nodiscard]] virtual bool reaches_group(const FrameRoute& route) const = 0;
  /// Receives what is sent to a group from now on. The error is a sentence.
  [[nodiscard]] virtual Result<void, std::string> join(const Gid& group) = 0;
  virtual void leave(const Gid& group) = 0;
  /// Each process that is behind an address gets a copy of every frame, instead of one of them.
  [[nodiscard]] virtual bool copies_to_all() const = 0;

  /// Before each sleep; true if descriptors were lost and made anew.
  virtual bool repair() = 0;
  virtual void close() = 0;
  virtual void add_to(PortStatistics& statistics) const = 0;
};

}  // namespace verbena::ports
