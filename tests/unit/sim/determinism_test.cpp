// The same seed gives the same world: equal trace hashes and captures that are equal byte for byte.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "pcap/pcapng_writer.h"
#include "sim/scenario/run.h"
#include "sim/swarm.h"

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

Run run_lossy(std::uint64_t seed) {
  const auto scenarios = load_scenarios(lossy, "lossy.toml");
  REQUIRE(scenarios);
  char name[] = "/tmp/verbena-determinism-XXXXXX";
  const int fd = mkstemp(name);
  REQUIRE(fd >= 0);
  auto writer = pcap::PcapngWriter::from_fd(fd, name, {});
  const auto result = run_scenario(scenarios->front(), {.seed = seed, .capture = &writer});
  REQUIRE(result);
  REQUIRE(result->passed());
  REQUIRE(writer.close());
  std::ifstream file(name, std::ios::binary);
  Run run{result->hash, {std::istreambuf_iterator<char>(file), {}}};
  std::remove(name);
  return run;
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

TEST_CASE("a swarm's world depends on its seed alone") {
  const SwarmOutcome first = run_swarm_seed(42);
  CHECK_FALSE(first.failure);
  CHECK(first.hash == run_swarm_seed(42).hash);
  CHECK(first.hash != run_swarm_seed(43).hash);
}
