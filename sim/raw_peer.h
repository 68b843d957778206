// A host without a NIC: it sends the packets that it is told to, whatever they are, and answers
// nothing. Read first: docs/scenarios.md, "Scripted peers".
#pragma once

#include <string>

#include "base/bytes.h"
#include "nic_model/types.h"
#include "proto/roce/encap.h"
#include "sim/channel.h"
#include "sim/world.h"

namespace verbena::sim {

class RawPeer final : public Station {
 public:
  RawPeer(World& world, StationId id, std::string name, const Gid& gid,
          nic::GidEntry::Type encapsulation)
      : Station(world, id, std::move(name)), gid_(gid), encapsulation_(encapsulation) {}

  [[nodiscard]] const Gid& gid() const { return gid_; }
  void attach(Channel& channel) { channel_ = &channel; }
  [[nodiscard]] Channel& channel() { return *channel_; }

  enum class Icrc : std::uint8_t { good, bad };
  /// Sends bytes from the BTH to the end of the pad, at least a BTH, as they are.
  void send_transport(const Gid& to, ByteView transport, Icrc icrc);
  /// Sends a whole Ethernet frame without FCS as it is.
  void send_frame(ByteView frame);

  [[nodiscard]] bool is_host() const override { return true; }
  void receive(FrameRef frame) override;

 private:
  Gid gid_;
  nic::GidEntry::Type encapsulation_;
  Channel* channel_ = nullptr;
};

}  // namespace verbena::sim
