// The way to other hosts: RoCE v2 through UDP sockets, one for each address of the device. Half of
// a port: host_port.h puts it beside the fabric.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "ports/fabric_ring.h"
#include "ports/port.h"
#include "ports/udp_batch.h"
#include "ports/udp_segments.h"
#include "ports/udp_socket.h"
#include "proto/packet_sink.h"

namespace verbena::ports {

/// Takes received frames, and hears whether their ICRC is right.
class UdpFrameHandler {
 public:
  virtual ~UdpFrameHandler() = default;
  virtual void on_udp_frame(ByteView frame, bool icrc_is_good) = 0;
};

class UdpPort {
 public:
  /// Opens a socket for each address, which must be this host's. The error is a sentence.
  [[nodiscard]] static Result<UdpPort, std::string> open(
      std::span<const inet::Ipv4Address> addresses);

  // As FrameSink. A frame from an address without a socket is lost.
  [[nodiscard]] MutableBytes reserve(const FrameRoute& route, std::size_t bytes);
  [[nodiscard]] WayFields way_fields() const;
  void commit();
  /// Sends what is committed, as far as the kernel takes it.
  void flush();

  std::uint32_t poll_receive(UdpFrameHandler& handler, std::uint32_t frames_max);
  /// Part of what the sockets gave has not been handed out yet.
  [[nodiscard]] bool pending() const { return segments_.pending(); }

  void begin_batch(Time now) { now_ = now; }
  /// When to try again to send what the kernel had no memory for.
  [[nodiscard]] Time next_deadline() const { return retry_at_; }
  /// Frames wait until their socket is writable.
  [[nodiscard]] bool waits_for_room() const { return blocked_ && retry_at_ == time_never; }
  [[nodiscard]] std::span<const UdpSocket> sockets() const { return sockets_; }
  /// Before each sleep; true if descriptors were lost and made anew.
  bool repair();
  void close();

  void add_to(PortStatistics& statistics) const;

 private:
  explicit UdpPort(std::vector<UdpSocket> sockets) : sockets_(std::move(sockets)) {}
  /// False if the batch has to wait.
  bool send_batch();
  [[nodiscard]] MutableBytes lose(std::size_t bytes);

  std::vector<UdpSocket> sockets_;
  Time now_{};

  UdpBatch batch_;
  /// The last reservation is not in the batch.
  bool losing_ = false;
  std::array<std::byte, frame_bytes_max> lost_frame_{};
  bool blocked_ = false;
  Time retry_at_ = time_never;

  UdpSegments segments_;
  std::size_t first_socket_ = 0;

  std::uint64_t frames_lost_ = 0;
  std::uint64_t frames_refused_ = 0;
  std::uint64_t times_blocked_ = 0;
};

}  // namespace verbena::ports
