// The swarm: worlds drawn from a seed (hosts, links, connections, work, faults), run to their end,
// and checked for what must hold in every one of them:
//
// - every work request completes exactly once and in order, also when flushed;
// - memory that was not granted is untouched; what was granted holds what was sent, or for a failed
//   request a mixture of that and what was there;
// - an atomic executes once; an ATOMIC WRITE is seen whole or not at all;
// - what a FLUSH has made persistent would be there after a loss of power;
// - no packet is sent beyond the requester's window;
// - once the faults have ended, every connection that is still alive finishes its work;
// - the NICs' counters agree with the trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "faults/rule.h"

namespace verbena::sim {

struct SwarmOutcome {
  std::uint64_t seed = 0;
  std::uint64_t hash = 0;
  std::uint64_t packets = 0;
  std::uint64_t events = 0;
  std::uint64_t retransmissions = 0;
  /// Connections that ended in error, as too much loss permits.
  std::uint64_t broken_connections = 0;
  /// The faults that it met, or if it failed, those without which it doesn't fail.
  faults::RuleSet faults;
  /// What didn't hold; absent if all did.
  std::optional<std::string> failure;
};

/// Runs one world. If it fails, runs it again with fewer faults, until none can be left out.
[[nodiscard]] SwarmOutcome run_swarm_seed(std::uint64_t seed);

}  // namespace verbena::sim
