// `verbena swarm`: many small worlds from many seeds, each checked for what must always hold.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_status.h"
#include "faults/units.h"
#include "sim/swarm.h"

namespace verbena::cli {
namespace {

struct SwarmOptions {
  std::string seeds = "1..1000";
  unsigned jobs = 0;
};

/// "A..B", both inclusive, or one seed.
std::optional<std::pair<std::uint64_t, std::uint64_t>> parse_seeds(std::string_view text) {
  const auto dots = text.find("..");
  const auto first = faults::parse_number(text.substr(0, dots));
  const auto last =
      dots == std::string_view::npos ? first : faults::parse_number(text.substr(dots + 2));
  if (!first || !last || *last < *first || *last == ~std::uint64_t{0}) {
    return std::nullopt;
  }
  return std::pair(*first, *last);
}

struct Totals {
  std::uint64_t seeds = 0;
  std::uint64_t failures = 0;
  std::uint64_t packets = 0;
  std::uint64_t retransmissions = 0;
  std::uint64_t broken_connections = 0;
  /// Of all traces, in no order: equal runs have equal sums.
  std::uint64_t hash = 0;

  void add(const sim::SwarmOutcome& outcome) {
    ++seeds;
    failures += outcome.failure ? 1 : 0;
    packets += outcome.packets;
    retransmissions += outcome.retransmissions;
    broken_connections += outcome.broken_connections;
    hash += outcome.hash;
  }
};

void report_failure(const sim::SwarmOutcome& outcome) {
  fmt::print("FAIL  seed {}: {}\n      replay: verbena swarm --seeds {}\n", outcome.seed,
             *outcome.failure, outcome.seed);
  for (const faults::Rule& rule : outcome.faults) {
    fmt::print("      fault: {}\n", rule.text);
  }
}

int run(const SwarmOptions& options) {
  const auto seeds = parse_seeds(options.seeds);
  if (!seeds) {
    fmt::print(stderr, "verbena swarm: --seeds takes A..B or one number, not '{}'.\n",
               options.seeds);
    return exit_usage;
  }
  Totals totals;
  std::mutex mutex;
  std::atomic<std::uint64_t> next = seeds->first;
  const auto work = [&] {
    for (std::uint64_t seed = next++; seed <= seeds->second; seed = next++) {
      const sim::SwarmOutcome outcome = sim::run_swarm_seed(seed);
      const std::lock_guard lock(mutex);
      totals.add(outcome);
      if (outcome.failure) {
        report_failure(outcome);
      }
    }
  };
  const unsigned jobs =
      options.jobs != 0 ? options.jobs : std::max(1U, std::thread::hardware_concurrency());
  {
    std::vector<std::jthread> workers;
    workers.reserve(jobs);
    for (unsigned i = 0; i < jobs; ++i) {
      workers.emplace_back(work);
    }
  }
  fmt::print(
      "{} seeds, {} failed; {} packets, {} sent again, {} connections broken by too many "
      "losses; hash {:016x}\n",
      totals.seeds, totals.failures, totals.packets, totals.retransmissions,
      totals.broken_connections, totals.hash);
  return totals.failures == 0 ? exit_ok : exit_failed;
}

}  // namespace

void add_swarm(CLI::App& app, int& status) {
  auto options = std::make_shared<SwarmOptions>();
  CLI::App* command = app.add_subcommand(
      "swarm", "Run many random worlds with faults and check what must always hold");
  command->add_option("--seeds", options->seeds, "A..B, or one (default 1..1000)")
      ->type_name("SEEDS");
  command->add_option("-j,--jobs", options->jobs, "Worlds at a time; by default one a processor")
      ->type_name("COUNT");
  command->footer("The exit status is 0 only if no world failed.");
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace verbena::cli
