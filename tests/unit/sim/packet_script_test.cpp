// A scenario with a scripted peer as a script for another device: its steps, what our NIC had
// answered by each of them, and which scenarios are none.
#include "sim/scenario/packet_script.h"

#include <catch2/catch.hpp>
#include <string>

using namespace verbena;
using namespace verbena::sim;
using Catch::Contains;
using Kind = ScriptStep::Kind;

namespace {

const std::string world = R"(
title = "A script"
[[host]]
name = "server"
[[host]]
name = "peer"
nic = false
[[memory]]
name = "inbox"
host = "server"
size = 64
[[connection]]
psn = [0x100, 0x200]
)";

Result<PacketScript, std::string> script_of(const std::string& toml) {
  const auto scenarios = load_scenarios(toml, "s.toml");
  REQUIRE(scenarios);
  return read_script(scenarios->front());
}

std::string refusal(const std::string& toml) {
  const auto script = script_of(toml);
  REQUIRE_FALSE(script);
  return script.error();
}

}  // namespace

TEST_CASE("A script has the story's steps, and how much ours had answered by each") {
  const auto script = script_of(world + R"(
[story]
steps = [
  "server recv 7 into=inbox+8 length=16",
  "peer packet SEND_ONLY psn=+0 hex=01020304 ackreq=1 bad_icrc",
  "peer packet SEND_ONLY psn=+0 hex=01020304 ackreq=1",
  "wait server 7",
  "peer frame hex=00112233",
])");
  REQUIRE(script);
  REQUIRE(script->steps.size() == 5);
  const auto& steps = script->steps;
  CHECK(steps[0].kind == Kind::receive);
  CHECK(steps[0].wr_id == 7);
  REQUIRE(steps[0].sges.size() == 1);
  CHECK(steps[0].sges[0].length == 16);
  CHECK(to_value(steps[0].sges[0].addr) == to_value(script->regions[0].va) + 8);
  CHECK(steps[1].kind == Kind::packet);
  CHECK(steps[1].bad_icrc);
  CHECK_FALSE(steps[2].bad_icrc);
  // A BTH and four bytes.
  CHECK(steps[2].bytes.size() == 16);
  CHECK(steps[2].packets == 0);
  CHECK(steps[3].kind == Kind::wait);
  CHECK(steps[3].packets == 1);
  CHECK(steps[3].completions == 1);
  CHECK(steps[4].kind == Kind::frame);
  CHECK(steps[4].bytes.size() == 4);
}

TEST_CASE("A script knows both ends, and what our device did") {
  const auto script = script_of(world + R"(
[story]
steps = [
  "server write 3 from=inbox to=inbox length=8",
  "wait 5us",
  "peer packet ACKNOWLEDGE psn=+0 syndrome=0x62",
  "wait server 3",
])");
  REQUIRE(script);
  CHECK(script->device_psn == Psn(0x100));
  CHECK(script->peer_psn == Psn(0x200));
  CHECK(script->device_qpn != script->peer_qpn);
  CHECK(script->steps[0].kind == Kind::send);
  CHECK(script->steps[0].request.rkey == script->regions[0].rkey);
  CHECK(script->answers.frames.size() == 1);
  REQUIRE(script->answers.completions.size() == 1);
  CHECK(script->answers.completions[0].status == WcStatus::rem_access_err);
  CHECK(script->answers.state == nic::QpState::err);
  REQUIRE(script->answers.memories.size() == 1);
  CHECK(script->answers.memories[0].size() == 64);
}

TEST_CASE("What can't be brought to another device is no script, and why is told") {
  const std::string two_nics = "title = \"t\"\n[story]\nsteps = [\"wait 1us\"]";
  CHECK_THAT(refusal(two_nics), Contains("one scripted peer"));
  CHECK_THAT(refusal("transport = \"roce_v1\"\n" + world + "[story]\nsteps = [\"wait 1us\"]"),
             Contains("RoCE v2 over IPv4"));
  CHECK_THAT(refusal(world + "[story]\nsteps = [\"server modify err\"]"),
             Contains("'server modify err' can't be told to another device"));
  CHECK_THAT(refusal(world + "[story]\nsteps = [\"fault drop count=1\"]"), Contains("fault"));
  CHECK_THAT(refusal(world + "[[fault]]\naction = \"drop\"\n[story]\nsteps = [\"wait 1us\"]"),
             Contains("faults"));
  CHECK_THAT(refusal(world + "[story]\nsteps = [\"wait server 1\"]"),
             Contains("stands still at 'wait server 1'"));
}
