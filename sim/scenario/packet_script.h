// A scenario with a scripted peer as a script for any device: what the device is given, what is
// done and sent to it, and what our NIC answered in virtual time, so that another device's answers
// can be compared with that.
//
//     scenario ──▶ read_script() ──▶ PacketScript ──▶ whoever brings the steps to a real device
//                                      └ answers ──▶ what to compare its answers with
//
// The script is what the story did; it doesn't branch. Numbers that only the device can choose (its
// QPN, keys) are ours here, and whoever runs the script puts those of the device in their place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "nic_model/types.h"
#include "proto/work.h"
#include "sim/scenario/run.h"
#include "sim/scenario/scenario.h"

namespace verbena::sim {

/// Memory of the device, registered.
struct ScriptRegion {
  MemorySpec spec;
  Va va{};
  Lkey lkey{};
  Rkey rkey{};
};

struct ScriptStep {
  enum class Kind : std::uint8_t {
    /// The peer sends `bytes`, from the BTH to the end of the pad.
    packet,
    /// The peer sends `bytes`, a whole Ethernet frame.
    frame,
    /// The device is given a receive request: `wr_id` and `sges`.
    receive,
    /// The device is given `request`, with `sges` instead of its own.
    send,
    /// The script goes on when the device has answered as much as the counts below say.
    wait,
  };
  Kind kind = Kind::wait;
  std::vector<std::byte> bytes{};
  bool bad_icrc = false;
  std::uint64_t wr_id = 0;
  SendWr request{};
  std::vector<Sge> sges{};
  /// How many packets and completions there were of our NIC when this step was done.
  std::size_t packets = 0;
  std::size_t completions = 0;
};

/// What a device did, as far as it can be seen from outside.
struct DeviceAnswers {
  /// Whole Ethernet frames, in the order of sending.
  std::vector<std::vector<std::byte>> frames;
  std::vector<Completion> completions;
  std::vector<nic::AsyncEventType> events;
  nic::QpState state = nic::QpState::reset;
  /// What its regions hold at the end, in the order of the regions.
  std::vector<std::vector<std::byte>> memories;
};

struct PacketScript {
  /// Copied: attributes of the queue pair, and from which PSNs on the device and the peer send.
  ConnectionSpec connection;
  Psn device_psn;
  Psn peer_psn;
  /// Ours, and the peer's.
  Qpn device_qpn{};
  Qpn peer_qpn{};
  std::vector<ScriptRegion> regions;
  /// From arena_va on, all regions are in there.
  std::size_t arena_bytes = 0;
  std::vector<ScriptStep> steps;
  DeviceAnswers answers;
};

/// Runs the scenario in virtual time. The error is a sentence that says why it is no script for
/// another device: there must be one host with a NIC and one scripted peer, one connection over
/// RoCE that is there from the beginning, and nothing in the story but work requests, packets and
/// waits.
[[nodiscard]] Result<PacketScript, std::string> read_script(const Scenario& scenario);

}  // namespace verbena::sim
