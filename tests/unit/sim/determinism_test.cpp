// The same seed gives the same world: equal trace hashes and captures that are equal byte for byte.
#include <fmt/format.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <sstream>
#include <string>

#include "base/crc.h"
#include "pcap/pcapng_writer.h"
#include "sim/scenario/run.h"
#include "sim/swarm.h"
#include "tests/unit/project_file.h"

using namespace verbena;
using namespace verbena::sim;

namespace {

constexpr std::string_view lossy = R"(
[[fault]]
action = "drop"
chance = "20%"
[[fault]]
action = "corrupt"
chance = "5%"
[story]
steps = ["client write 1..20 from=source to=target length=3000", "wait client 20"]
)";

struct Run {
  std::uint64_t hash = 0;
  std::string capture;
};

/// Runs a scenario that passes, and keeps its capture.
Run run_captured(const Scenario& scenario, std::optional<std::uint64_t> seed) {
  char name[] = "/tmp/verbena-determinism-XXXXXX";
  const int fd = mkstemp(name);
  REQUIRE(fd >= 0);
  auto writer = pcap::PcapngWriter::from_fd(fd, name, {});
  const auto result = run_scenario(scenario, {.seed = seed, .capture = &writer});
  REQUIRE(result);
  REQUIRE(result->passed());
  REQUIRE(writer.close());
  std::ifstream file(name, std::ios::binary);
  Run run{result->hash, {std::istreambuf_iterator<char>(file), {}}};
  std::remove(name);
  return run;
}

Run run_lossy(std::uint64_t seed) {
  const auto scenarios = load_scenarios(lossy, "lossy.toml");
  REQUIRE(scenarios);
  return run_captured(scenarios->front(), seed);
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file.is_open());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("the same seed gives the same trace and the same capture") {
  const Run first = run_lossy(5);
  const Run second = run_lossy(5);
  CHECK(first.hash == second.hash);
  CHECK(first.capture == second.capture);
  CHECK(first.capture.size() > 10'000);
}

TEST_CASE("another seed gives another trace") { CHECK(run_lossy(5).hash != run_lossy(6).hash); }

TEST_CASE("another byte in a packet gives another trace") {
  // The seed decides the keys, and nothing else here.
  constexpr std::string_view one_write = R"(
[story]
steps = ["client write 1 from=source to=target length=8", "wait client 1"]
)";
  const auto scenarios = load_scenarios(one_write, "write.toml");
  REQUIRE(scenarios);
  const Run first = run_captured(scenarios->front(), 1);
  const Run second = run_captured(scenarios->front(), 7);
  CHECK(first.capture != second.capture);
  CHECK(first.hash != second.hash);
}

TEST_CASE("a swarm's world depends on its seed alone") {
  const SwarmOutcome first = run_swarm_seed(42);
  CHECK_FALSE(first.failure);
  CHECK(first.hash == run_swarm_seed(42).hash);
  CHECK(first.hash != run_swarm_seed(43).hash);
}

// tests/data/sim_hashes.txt says what every build must make of some scenarios and seeds: those of
// g++ and of clang++, with and without optimisation. If a change of the NIC's behaviour is meant to
// change them, put the lines that this test prints into that file.
TEST_CASE("every compiler's build gives the same traces and captures") {
  const std::string table = read_text(test::project_file("tests/data/sim_hashes.txt"));
  std::istringstream lines(table);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') {
      continue;
    }
    std::istringstream words(line);
    std::string what;
    std::uint64_t seed = 0;
    words >> what >> seed;
    std::string now;
    if (what == "swarm") {
      now = fmt::format("swarm {} {:016x}", seed, run_swarm_seed(seed).hash);
    } else {
      const auto scenarios = load_scenarios(read_text(test::project_file(what)), what);
      REQUIRE(scenarios);
      const Run run = run_captured(scenarios->front(), seed);
      now = fmt::format("{} {} {:016x} {:08x}", what, seed, run.hash,
                        crc32c(0, std::as_bytes(std::span(run.capture))));
    }
    CHECK(now == line);
    ++count;
  }
  CHECK(count >= 20);
}
