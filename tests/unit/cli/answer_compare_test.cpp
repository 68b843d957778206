// What two devices answered to a script: what is told of a packet, a completion and memory, and
// where two lists of such lines differ.
#include "cli/answer_compare.h"

#include <catch2/catch.hpp>

#include "cli/packet_rules.h"

namespace verbena::cli {
namespace {

sim::PacketScript script_of(const std::string& toml) {
  const auto scenarios = sim::load_scenarios(toml, "s.toml");
  REQUIRE(scenarios);
  auto script = sim::read_script(scenarios->front());
  REQUIRE(script);
  return *script;
}

sim::PacketScript refused_write() {
  return script_of(R"(
title = "t"
[[host]]
name = "server"
[[host]]
name = "peer"
nic = false
[[memory]]
name = "target"
host = "server"
size = 64
[story]
steps = [
  "peer packet WRITE_ONLY psn=+0 va=target+8 rkey=target.rkey length=4 payload=4 ackreq=1",
  "wait 5us",
  "peer packet WRITE_ONLY psn=+1 va=target rkey=0x12345678 length=4 payload=4",
  "wait 5us",
])");
}

}  // namespace

TEST_CASE("What a device answered is told in words") {
  const sim::PacketScript script = refused_write();
  const AnswerWords words = in_words(script, script.answers, script.device_qpn);
  CHECK(words.packets ==
        std::vector<std::string>{"ACK psn=0 msn=1 syndrome=0x1f",
                                 "NAK psn=1 msn=1 (remote access error) syndrome=0x62"});
  CHECK(words.completions.empty());
  CHECK(words.events == std::vector<std::string>{"qp_access_err"});
  CHECK(words.state == std::vector<std::string>{"err"});
  // Byte 0 of 0 1 2 3 is what was there before.
  REQUIRE(words.memory.size() == 1);
  CHECK(words.memory[0].starts_with("target+9: 3 bytes, "));
}

TEST_CASE("Of a completion with an error only ID and status are told") {
  const sim::PacketScript script = refused_write();
  sim::DeviceAnswers answers = script.answers;
  answers.completions = {
      {.wr_id = 1, .byte_len = 8, .imm_or_rkey = 5, .opcode = WcOpcode::recv, .with_imm = true},
      {.wr_id = 2, .byte_len = 8, .status = WcStatus::wr_flush_err, .opcode = WcOpcode::recv},
      // The immediate is the receiver's, and so is the length.
      {.wr_id = 3, .byte_len = 8, .opcode = WcOpcode::send, .with_imm = true}};
  CHECK(in_words(script, answers, script.device_qpn).completions ==
        std::vector<std::string>{"1 success recv bytes=8 imm=0x5", "2 wr_flush_err",
                                 "3 success send"});
}

TEST_CASE("Two lists differ in as few places as can be") {
  AnswerWords ours;
  AnswerWords theirs;
  ours.packets = {"a", "b", "c", "d"};
  theirs.packets = {"a", "x", "y", "c"};
  ours.state = {"err"};
  theirs.state = {"rts"};
  const auto found = differences(ours, theirs);
  REQUIRE(found.size() == 3);
  CHECK((found[0].what == "packets" && found[0].ours == "b" && found[0].theirs == "x; y"));
  CHECK((found[1].what == "packets" && found[1].ours == "d" && found[1].theirs == "nothing"));
  CHECK((found[2].what == "state" && found[2].ours == "err" && found[2].theirs == "rts"));
  CHECK(differences(ours, ours).empty());
}

TEST_CASE("A rule explains what it says, of the device that it is about") {
  const AnswerDifference event{.what = "events", .ours = "qp_req_err", .theirs = "nothing"};
  CHECK(rule_for("rxe", "anything", event));
  CHECK_FALSE(rule_for("self", "anything", event));
  CHECK_FALSE(rule_for("rxe", "anything", {.what = "events", .ours = "nothing", .theirs = "x"}));
  CHECK(is_known_to_end("rxe", "peer_write_of_nothing"));
  CHECK_FALSE(is_known_to_end("self", "peer_write_of_nothing"));
  CHECK_FALSE(is_known_to_end("rxe", "peer_uc"));
}

}  // namespace verbena::cli
