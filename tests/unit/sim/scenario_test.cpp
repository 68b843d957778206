// Scenario files: what is wrong with one is told with its place and what was meant; what doesn't
// come out is told with the trace around it; and the examples of the documentation run.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "sim/scenario/run.h"
#include "tests/unit/project_file.h"

using namespace verbena;
using namespace verbena::sim;
using Catch::Contains;

namespace {

std::string load_error(std::string_view toml) {
  const auto scenarios = load_scenarios(toml, "s.toml");
  REQUIRE_FALSE(scenarios);
  return scenarios.error();
}

/// The error of running, for what only the built world can tell.
std::string run_error(std::string_view toml) {
  const auto scenarios = load_scenarios(toml, "s.toml");
  REQUIRE(scenarios);
  const auto result = run_scenario(scenarios->front(), {});
  REQUIRE_FALSE(result);
  return result.error();
}

/// What a scenario that runs complains about, all of it.
std::string mismatches(std::string_view toml) {
  const auto scenarios = load_scenarios(toml, "s.toml");
  REQUIRE(scenarios);
  const auto result = run_scenario(scenarios->front(), {});
  REQUIRE(result);
  std::string text;
  for (const Mismatch& mismatch : result->mismatches) {
    text += explain(scenarios->front(), *result, mismatch) + "\n";
  }
  return text;
}

std::string story_of(std::string_view steps, std::string_view expect) {
  return "[story]\nsteps = [" + std::string(steps) + "]\n[expect]\n" + std::string(expect) + "\n";
}

constexpr std::string_view one_write =
    R"("client write 1 from=source to=target length=8", "wait client 1")";

}  // namespace

TEST_CASE("errors of a file name line, column and what was meant") {
  CHECK_THAT(load_error("title = \"x\n"), Contains("s.toml:1:"));
  CHECK_THAT(load_error("[[host]]\nnmae = \"a\"\n"), Contains("s.toml:1:1: name is missing"));
  CHECK_THAT(load_error("titel = \"x\"\n"), Contains("s.toml:1:1:") && Contains("mean title?"));
  CHECK_THAT(load_error("[[connection]]\nmtu = 1000\n"),
             Contains("s.toml:2:7: '1000' isn't a path MTU"));
  CHECK_THAT(load_error("transport = \"roce_v3\"\n"),
             Contains("s.toml:1:13: There is no transport 'roce_v3'"));
  CHECK_THAT(
      load_error("transport = \"roce_v1\"\n[[host]]\nname = \"a\"\naddress = \"10.0.0.1\"\n"),
      Contains("s.toml:4:11: '10.0.0.1' isn't an IPv6 address, which roce_v1 takes"));
  CHECK_THAT(load_error("[[host]]\nname = \"a\"\naddress = \"fe80::1\"\n"),
             Contains("s.toml:3:11: 'fe80::1' isn't an IPv4 address, which roce_v2 takes"));
  CHECK_THAT(load_error("[[connection]]\nservice = \"rd\"\n"),
             Contains("s.toml:2:11: 'rd' isn't a service"));
  CHECK_THAT(load_error("[[memory]]\nname=\"m\"\nhost=\"client\"\nsize=8\naccess=[\"mw_bnd\"]\n"),
             Contains("s.toml:5:9:") && Contains("mean mw_bind?"));
  CHECK_THAT(load_error("[[window]]\nname=\"w\"\nhost=\"server\"\ntype=3\n"),
             Contains("s.toml:4:6: A window is of type 1 or 2, not '3'"));
  CHECK_THAT(load_error("[[srq]]\nname=\"q\"\nhost=\"server\"\n"
                        "[[connection]]\nsrq=[\"p\"]\n"),
             Contains("s.toml:5:6: No shared receive queue is named 'p'"));
  CHECK_THAT(load_error("[[connection]]\nbetween = [\"client\", \"sever\"]\n"),
             Contains("s.toml:2:22:") && Contains("mean server?"));
  CHECK_THAT(load_error("[[fault]]\naction = \"drop\"\ncont = 1\n"),
             Contains("s.toml:3:8:") && Contains("mean count?"));
  CHECK_THAT(load_error("[link]\nrate = \"fast\"\n"), Contains("isn't a rate"));
  CHECK_THAT(load_error("[[memory]]\nname=\"m\"\nhost=\"client\"\nsize=\"9GiB\"\n"),
             Contains("isn't a size"));
  CHECK_THAT(load_error("[sweep]\nx = []\n"), Contains("1 to 1000 rows"));
}

TEST_CASE("errors of a step point into its text") {
  const auto error = [](std::string_view step) {
    return run_error("[story]\nsteps = [\n\"" + std::string(step) + "\"]\n");
  };
  CHECK_THAT(error("clent write 1"), Contains("s.toml:3:2:") && Contains("mean client?"));
  CHECK_THAT(error("client wirte 1"), Contains("s.toml:3:9:") && Contains("mean write?"));
  CHECK_THAT(error("client write 1 from=source to=taret"),
             Contains("s.toml:3:32:") && Contains("mean target?"));
  CHECK_THAT(error("client write 1 from=source to=target lenght=8"),
             Contains("s.toml:3:39:") && Contains("mean length?"));
  CHECK_THAT(error("client write x from=source to=target"), Contains("isn't a number"));
  CHECK_THAT(error("client write 1 from=source"), Contains("to= is missing"));
  CHECK_THAT(error("wait soon 1"), Contains("No host is named 'soon'"));
  CHECK_THAT(error("fault dorp count=1"), Contains("Did you mean drop?"));
  CHECK_THAT(error("client packet SEND_ONLY psn=0"), Contains("can't 'packet'"));
  CHECK_THAT(error("client path lod"), Contains("none of load, rearm and migrate"));
  CHECK_THAT(error("client path load"), Contains("an alternate address of both hosts"));
  CHECK_THAT(error("client path rearm"), Contains("knows of one way only"));
  CHECK_THAT(error("client rate fast"), Contains("isn't a rate"));
  CHECK_THAT(error("client recv 1 srq=q"), Contains("No shared receive queue is named 'q'"));
  CHECK_THAT(error("client bind 1 window=w"), Contains("No window is named 'w'"));
}

TEST_CASE("a difference in the packets is told with the trace around it") {
  const std::string text = mismatches(story_of(
      one_write, "packets = [\"client > server WRITE_ONLY psn=+0\", \"server > client NAK\"]"));
  CHECK_THAT(text, Contains("s.toml:4:") && Contains("Packet 2") && Contains("it is ACK"));
  CHECK_THAT(text, Contains("  > ") && Contains("WRITE_ONLY psn=0 payload=8"));
}

TEST_CASE("each kind of expectation can fail") {
  const auto fails = [](std::string_view expect) {
    return mismatches(story_of(one_write, expect));
  };
  CHECK_THAT(fails("packets = []"), Contains("2 more packets are sent than expected"));
  CHECK_THAT(fails("packets = [\"...\", \"client > server SEND_ONLY\"]"), Contains("No packet"));
  CHECK_THAT(fails("packets = [\"client > server WRITE_ONLY length=9\", \"...\"]"),
             Contains("length is 0x8, expected 0x9"));
  CHECK_THAT(fails("packets = [\"client > server WRITE_ONLY length=9 payload=9\", \"...\"]"),
             Contains("length is 0x8, expected 0x9"));
  CHECK_THAT(fails("packets = [\"client > server WRITE_ONLY lost\", \"...\"]"),
             Contains("it isn't lost"));
  CHECK_THAT(fails("completions = []"), Contains("1 more completions than expected"));
  CHECK_THAT(fails("completions = [\"client 2 rdma_write\"]"), Contains("it is of wr 1"));
  CHECK_THAT(fails("completions = [\"client 1 rem_access_err\"]"), Contains("success"));
  CHECK_THAT(fails("completions = [\"client 1\", \"server 7 recv\"]"), Contains("never completes"));
  CHECK_THAT(fails("states = [\"client err\"]"), Contains("is rts, expected err"));
  CHECK_THAT(fails("states = [\"client rts path=armed\"]"),
             Contains("The path of client is migrated, expected armed"));
  CHECK_THAT(fails("packets = [\"client > server WRITE_ONLY alternate\", \"...\"]"),
             Contains("it goes by the first way"));
  CHECK_THAT(fails("completions = [\"client 1 invalidated=5\"]"),
             Contains("it invalidated no key"));
  CHECK_THAT(fails("events = [\"server qp_fatal\"]"), Contains("is nothing"));
  CHECK_THAT(fails("counters = [\"client sent_pkts=2\"]"), Contains("is 1, expected 2"));
  CHECK_THAT(fails("counters = [\"client sent_pkts>=2\"]"), Contains("at least 2"));
  CHECK_THAT(fails("memory = [\"target == zero length=8\"]"), Contains("Byte 1 of 'target'"));
  CHECK_THAT(fails("ends = \"1s..2s\""), Contains("The story ends at"));
  CHECK_THAT(fails("objects = [\"client qps=2\"]"), Contains("client has 1 qps, expected 2"));
  CHECK_THAT(fails("packets = [\"client > server WRITE_ONLY check=psn\", \"...\"]"),
             Contains("its receiver has nothing against it"));
  CHECK(fails("packets = [\"...\"]\nmemory = [\"target == source length=8\"]").empty());
}

TEST_CASE("whatever isn't met is told with the place in the trace where it shows") {
  const auto shows = [](std::string_view expect, std::string_view event) {
    const std::string text = mismatches(story_of(one_write, expect));
    CHECK_THAT(text, Contains("\n  > ") && Contains(std::string(event)));
  };
  shows("completions = [\"client 1 rem_access_err\"]", "completed wr 1: rdma_write success");
  shows("completions = [\"client 1\", \"server 7 recv\"]", "completed wr 1");
  shows("events = [\"server qp_fatal\"]", "completed wr 1");
  shows("counters = [\"client sent_pkts=2\"]", "completed wr 1");
  shows("memory = [\"target == zero length=8\"]", "server     arrived   #1");
  shows("ends = \"1s..2s\"", "completed wr 1");
  const std::string text = mismatches(
      story_of(R"("client write 1 from=source to=target length=8 rkey=1", "wait client 1")",
               "states = [\"server rts\"]\nevents = []"));
  CHECK_THAT(text, Contains("  > ") && Contains("state     QP 0x21 is ERR") &&
                       Contains("server has 1 more events than expected: qp_access_err"));
}

TEST_CASE("why a receiver refused a packet can be expected") {
  constexpr std::string_view gap = R"(
[[fault]]
action = "drop"
nth = 1
[story]
steps = ["client write 1 from=source to=target length=2048", "wait client 1"]
[expect]
packets = ["client > server WRITE_FIRST lost",
           "client > server WRITE_LAST check=psn expected=+0 got=)";
  CHECK(mismatches(std::string(gap) + "+1\", \"...\"]\n").empty());
  CHECK_THAT(mismatches(std::string(gap) + "+2\", \"...\"]\n"),
             Contains("its receiver expected 0x0 and got 0x1"));
}

TEST_CASE("a refusal that a step expects must come, and be that one") {
  const auto error = [](std::string_view step) {
    return run_error("[story]\nsteps = [\"" + std::string(step) + "\"]\n");
  };
  CHECK_THAT(error("client write 1 from=source to=target refused=queue_full"),
             Contains("s.toml:2:56: The work request isn't refused"));
  CHECK_THAT(error("client write 1 from=source:4294967295 to=target refused=queue_full"),
             Contains("is refused as message_too_long, expected queue_full"));
  CHECK_THAT(error("client destroy cq refused=in_use"), Contains("isn't refused as 'in_use'"));
  CHECK_THAT(error("client destroy mr refused=busy"), Contains("neither pd nor cq"));
  CHECK_THAT(error("client reg source"), Contains("is registered already"));
}

TEST_CASE("rounds wait for their own completions, and closed connections can be made anew") {
  constexpr std::string_view rounds = R"(
[story]
times = 3
steps = ["client connect", "client write 1 from=source to=target length=8", "wait client 1",
         "client close"]
[expect]
completions = ["client 1", "client 1", "client 1"]
objects = ["client qps=0", "server qps=0"]
states = ["client closed"]
)";
  CHECK(mismatches(rounds).empty());
  CHECK_THAT(run_error("[story]\nsteps = [\"client close\", \"client recv 1\"]\n"),
             Contains("The connection is closed"));
}

TEST_CASE("a story that stands still says at which step") {
  CHECK_THAT(mismatches(story_of(R"("wait server 7")", "")),
             Contains("stands still at 'wait server 7'"));
}

TEST_CASE("a sweep runs every combination") {
  const auto scenarios = load_scenarios(
      "[sweep]\na = [1, 2]\nab = [\"x\", \"y\", \"z\"]\n"
      "[story]\nsteps = [\"wait $aus\", \"wait 1$abs\"]\n",
      "s.toml");
  REQUIRE(scenarios);
  REQUIRE(scenarios->size() == 6);
  CHECK(scenarios->front().variant == "a=1 ab=x");
  CHECK(scenarios->back().steps[1].text() == "wait 1zs");
}

TEST_CASE("the examples in docs/scenarios.md run and pass") {
  std::ifstream file(test::project_file("docs/scenarios.md"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::size_t count = 0;
  for (std::size_t at = text.find("```toml\n"); at != std::string::npos;
       at = text.find("```toml\n", at)) {
    at += 8;
    const std::size_t end = text.find("```", at);
    const std::string example = text.substr(at, end - at);
    at = end;
    CAPTURE(example);
    const auto scenarios = load_scenarios(example, "docs/scenarios.md");
    REQUIRE(scenarios);
    for (const Scenario& scenario : *scenarios) {
      const auto result = run_scenario(scenario, {});
      REQUIRE(result);
      for (const Mismatch& mismatch : result->mismatches) {
        FAIL_CHECK(explain(scenario, *result, mismatch));
      }
    }
    ++count;
  }
  CHECK(count >= 6);
}
