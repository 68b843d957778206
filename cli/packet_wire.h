// The script's end of a wire: a host without a NIC on a link, which sends the RoCE packets that it
// is told to and keeps those that come for it. It answers ARP and echo, so that a kernel at the
// other end takes it for a host.
#pragma once

#include <poll.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ports/link.h"
#include "proto/gid.h"
#include "proto/inet/link_host.h"

namespace verbena::cli {

class PacketWire {
 public:
  struct Place {
    /// As LinkPlace::from_text() reads it.
    std::string link;
    /// With its subnet, in which the device is.
    inet::LinkAddress own{};
    Gid device{};
  };
  /// The error is a sentence.
  [[nodiscard]] static Result<PacketWire, std::string> open(const Place& place);

  /// Reads what has come, and says what is due. To be called again and again.
  void turn();
  /// Somebody is at the other end, and the device's Ethernet address is known; asks for it.
  [[nodiscard]] bool knows_device();
  void add_descriptors(std::vector<pollfd>& descriptors) const;

  /// Sends bytes from the BTH to the end of the pad to the device, with a right ICRC or a wrong
  /// one. False if there is no room now, or if the device isn't known.
  [[nodiscard]] bool send_transport(ByteView transport, bool bad_icrc);
  /// Sends a whole frame as it is.
  [[nodiscard]] bool send_frame(ByteView frame);

  /// Asks the device's host for its Ethernet address. It has looked at all frames before that when
  /// it answers. False if there is no room now, or if the device isn't known.
  [[nodiscard]] bool probe();
  /// How many answers there were to that.
  [[nodiscard]] std::size_t probes_answered() const { return probes_answered_; }

  /// RoCE frames from the device, whole, in order; those before are forgotten with forget().
  [[nodiscard]] const std::vector<std::vector<std::byte>>& frames() const { return frames_; }
  void forget() { frames_.clear(); }

 private:
  PacketWire(const Place& place, std::unique_ptr<ports::Link> link);

  /// Whether it is an answer to probe().
  [[nodiscard]] bool is_probe_answer(ByteView frame) const;

  Gid own_;
  Gid device_;
  std::unique_ptr<ports::Link> link_;
  inet::LinkHost host_;
  inet::MacAddress device_mac_{};
  std::size_t probes_answered_ = 0;
  std::vector<std::vector<std::byte>> frames_;
};

}  // namespace verbena::cli
