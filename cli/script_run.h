// Brings a script to a real device: its steps by a wire and a TCP connection, in real time.
//
// The script's waits are waits for answers: it goes on when the device has answered as much as ours
// had in virtual time at that place, or after a while when it doesn't. So a device that agrees is
// asked as fast as it answers, and a slow one isn't taken for a silent one.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/result.h"
#include "cli/packet_wire.h"
#include "cli/script_agent.h"
#include "sim/scenario/packet_script.h"

namespace verbena::cli {

/// What a device did, and under which number.
struct ScriptOutcome {
  sim::DeviceAnswers answers;
  Qpn device_qpn{};
};

/// Why there is no outcome.
struct ScriptFailure {
  /// No further script can be run, either.
  bool is_final = false;
  /// A sentence.
  std::string words;
};

class ScriptRun {
 public:
  /// Both must live as long as this. `peer` is the address of the wire's end.
  ScriptRun(PacketWire& wire, ScriptAgent& agent, const Gid& peer)
      : wire_(wire), agent_(agent), peer_(peer) {}

  /// Waits until the device's Ethernet address is known. Throws Interrupted (child.h), as run().
  [[nodiscard]] bool wait_for_device(std::chrono::seconds limit);
  [[nodiscard]] Result<ScriptOutcome, ScriptFailure> run(const sim::PacketScript& script);

 private:
  using Failure = std::unexpected<ScriptFailure>;

  /// Lets wire and agent speak until `is_done`; false if that takes longer than `limit`.
  bool pump(const std::function<bool()>& is_done, std::chrono::milliseconds limit);
  /// Says a line, and returns its answer. An answer "failed ..." is an error.
  [[nodiscard]] Result<std::string, ScriptFailure> ask(std::string line);
  [[nodiscard]] Result<void, ScriptFailure> set_up(const sim::PacketScript& script);
  [[nodiscard]] Result<void, ScriptFailure> perform(const sim::PacketScript& script);
  [[nodiscard]] Result<void, ScriptFailure> perform(const sim::PacketScript& script,
                                                    const sim::ScriptStep& step);
  [[nodiscard]] Result<ScriptOutcome, ScriptFailure> finish(const sim::PacketScript& script);
  void wait_for(std::size_t packets, std::size_t completions);
  /// Until the device has seen all packets: what it is given then comes behind them.
  void catch_up();
  void settle();
  /// The bytes with the device's own numbers instead of ours.
  [[nodiscard]] std::vector<std::byte> translate(const sim::PacketScript& script,
                                                 ByteView transport) const;
  [[nodiscard]] std::string pieces(const sim::PacketScript& script,
                                   const std::vector<Sge>& sges) const;

  PacketWire& wire_;
  ScriptAgent& agent_;
  Gid peer_;
  /// Of the device, during a script: its queue pair, and the keys of its regions.
  Qpn qpn_{};
  std::vector<Lkey> lkeys_;
  std::vector<Rkey> rkeys_;
  /// It didn't do what ours had done.
  bool went_another_way_ = false;
  /// Packets were sent since it caught up.
  bool is_behind_ = false;
};

}  // namespace verbena::cli
