#include "sim/swarm.h"

#include "sim/swarm_world.h"

namespace verbena::sim {
namespace {

SwarmOutcome run_world(std::uint64_t seed, const std::vector<bool>& without) {
  SwarmWorld world(seed, without);
  SwarmOutcome outcome;
  outcome.seed = seed;
  outcome.failure = world.run();
  outcome.hash = world.simulation().trace().hash();
  outcome.packets = world.simulation().trace().count(TraceKind::sent);
  outcome.events = world.simulation().events_done();
  outcome.retransmissions = world.retransmissions();
  outcome.broken_connections = world.broken_connections();
  outcome.faults = world.faults();
  return outcome;
}

}  // namespace

SwarmOutcome run_swarm_seed(std::uint64_t seed) {
  SwarmOutcome outcome = run_world(seed, {});
  if (!outcome.failure) {
    return outcome;
  }
  // Rules draw from generators of their own by position, so leaving one out may change those
  // behind it: a smaller list counts only if the world still fails with it.
  std::vector<bool> without(outcome.faults.size());
  for (std::size_t i = 0; i < without.size(); ++i) {
    without[i] = true;
    SwarmOutcome smaller = run_world(seed, without);
    if (smaller.failure) {
      outcome = std::move(smaller);
    } else {
      without[i] = false;
    }
  }
  return outcome;
}

}  // namespace verbena::sim
