// Runs a scenario and compares what happened with what it expects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "pcap/pcapng_writer.h"
#include "sim/scenario/scenario.h"
#include "sim/trace.h"

namespace verbena::sim {

/// An expectation that wasn't met.
struct Mismatch {
  Place place;
  std::string message;
  /// The event of the trace at which the difference shows, if there is one.
  std::optional<std::size_t> event;
};

struct ScenarioResult {
  std::vector<Mismatch> mismatches;
  std::uint64_t seed = 0;
  std::uint64_t hash = 0;
  std::uint64_t packets = 0;
  std::uint64_t events = 0;
  /// When the last thing happened that the trace tells of.
  Time end{};
  /// Names of the stations, and of those the hosts, in the order of the file.
  std::vector<std::string> stations;
  std::size_t host_count = 0;
  std::vector<TraceEvent> trace;

  [[nodiscard]] bool passed() const { return mismatches.empty(); }
};

struct RunOptions {
  /// Instead of the scenario's.
  std::optional<std::uint64_t> seed;
  /// Not closed here.
  pcap::PcapngWriter* capture = nullptr;
  /// Names of the stations whose frames go into the capture; if there are none, all hosts.
  std::vector<std::string> taps = {};
};

/// The error, "file:line:column: ...", is about a scenario that can't be run at all.
[[nodiscard]] Result<ScenarioResult, std::string> run_scenario(const Scenario& scenario,
                                                               const RunOptions& options);

/// One line of the trace: "   12.345us client  > WRITE_FIRST psn=0 ...".
[[nodiscard]] std::string trace_line(const ScenarioResult& result, std::size_t event);

/// A mismatch with its place, and the trace around it.
[[nodiscard]] std::string explain(const Scenario& scenario, const ScenarioResult& result,
                                  const Mismatch& mismatch);

}  // namespace verbena::sim
