// Fault rules from words and from TOML: both forms give the same rule, and errors say where and
// what.
#include "faults/parse.h"

#include <catch2/catch.hpp>

#include "proto/roce/gid.h"

using namespace verbena;
using namespace verbena::faults;
using Catch::Contains;

namespace {

RuleError error_of(std::string_view text) {
  const auto rule = parse_rule(text);
  REQUIRE_FALSE(rule);
  return rule.error();
}

std::size_t opcodes_in(std::string_view name) {
  const auto rule = parse_rule("drop opcode=" + std::string(name));
  REQUIRE(rule);
  return rule->match.opcodes->count();
}

}  // namespace

TEST_CASE("a rule in words carries every key") {
  const auto rule = parse_rule(
      "delay direction=in from=10.0.0.1 qp=0x11 opcode=rc_send_only psn=+2..+5 after=1ms "
      "until=2ms skip=3 every=2 count=7 chance=1/8 by=50us jitter=5us");
  REQUIRE(rule);
  CHECK(rule->action.kind == ActionKind::delay);
  CHECK(rule->action.delay == Duration(50'000));
  CHECK(rule->action.jitter == Duration(5'000));
  CHECK(rule->match.direction == Direction::in);
  CHECK(rule->match.source == roce::gid_from_text("10.0.0.1"));
  CHECK(rule->match.qpn == Qpn{0x11});
  CHECK(rule->match.opcodes->count() == 1);
  CHECK(rule->match.psn->relative);
  CHECK(rule->match.psn->last == Psn(5));
  CHECK(rule->match.after == Duration(1'000'000));
  CHECK(rule->match.until == Duration(2'000'000));
  CHECK(rule->match.skip == 3);
  CHECK(rule->match.every == 2);
  CHECK(rule->match.count == 7);
  CHECK(rule->match.chance.denominator == 8);
}

TEST_CASE("an opcode's name matches with its service, without it, and with a star") {
  CHECK(opcodes_in("rc_write_middle") == 1);
  CHECK(opcodes_in("WRITE_MIDDLE") == 4);  // RC, UC, RD, XRC
  CHECK(opcodes_in("rc_write_*") == 6);
  CHECK(opcodes_in("rc_write_middle,rc_send_only") == 2);
  CHECK(opcodes_in("cnp") == 1);
}

TEST_CASE("nth is the one frame of that number") {
  const auto rule = parse_rule("drop nth=3");
  REQUIRE(rule);
  CHECK(rule->match.skip == 2);
  CHECK(rule->match.count == 1);
}

TEST_CASE("a host's name is resolved before it is read as an address") {
  const auto resolve = [](std::string_view name) {
    return name == "server" ? roce::gid_from_text("10.0.0.2") : std::nullopt;
  };
  const auto rule = parse_rule("drop to=server", resolve);
  REQUIRE(rule);
  CHECK(rule->match.destination == roce::gid_from_text("10.0.0.2"));
  CHECK_FALSE(parse_rule("drop to=client", resolve));
}

TEST_CASE("errors point at the word and suggest what was meant") {
  CHECK_THAT(error_of("dorp count=1").message, Contains("Did you mean drop?"));
  const RuleError key = error_of("drop opcodes=WRITE_ONLY");
  CHECK(key.offset == 5);
  CHECK_THAT(key.message, Contains("Did you mean opcode?"));
  const RuleError opcode = error_of("drop count=1 opcode=WRITE_MIDLE");
  CHECK(opcode.offset == 13);
  CHECK_THAT(opcode.message, Contains("Did you mean write_middle?"));
  CHECK(explain("drop x=1", error_of("drop x=1")) ==
        "drop x=1\n     ^\nA fault rule has no key 'x'.");
}

TEST_CASE("what makes no sense is refused") {
  for (const char* text :
       {"", "drop count", "drop count=0", "drop by=5us", "delay", "delay by=5", "drop chance=2",
        "drop psn=+1..5", "drop psn=0x1000000", "corrupt mask=0", "drop count=1 count=2",
        "drop after=2ms until=1ms", "drop qp=0x1000000", "reorder behind=0", "drop aeth=nack"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_rule(text));
  }
}

TEST_CASE("a table says the same as the words") {
  const auto rules = parse_rules_file(R"(
[[fault]]
action = "drop"
opcode = "WRITE_MIDDLE"
count = 1

[[fault]]
action = "delay"
by = "5us"
)",
                                      "f.toml");
  REQUIRE(rules);
  REQUIRE(rules->size() == 2);
  CHECK((*rules)[0].text == "drop opcode=WRITE_MIDDLE count=1");
  CHECK((*rules)[0].match.opcodes == parse_rule("drop opcode=WRITE_MIDDLE")->match.opcodes);
  CHECK((*rules)[1].action.delay == Duration(5'000));
}

TEST_CASE("errors in a file name line and column") {
  const auto syntax = parse_rules_file("[[fault]]\naction = drop\n", "f.toml");
  REQUIRE_FALSE(syntax);
  CHECK_THAT(syntax.error(), Contains("f.toml:2:"));
  const auto key = parse_rules_file("[[fault]]\naction = \"drop\"\nqpn = 5\n", "f.toml");
  REQUIRE_FALSE(key);
  CHECK_THAT(key.error(), Contains("f.toml:3:7:") && Contains("has no key 'qpn'"));
  CHECK_FALSE(parse_rules_file("x = 1\n", "f.toml"));
  CHECK_FALSE(parse_rules_file("[[fault]]\naction = \"drop\"\ncount = 1.5\n", "f.toml"));
}

TEST_CASE("the short forms are rules like any other") {
  CHECK(rate_rule(ActionKind::drop, "1%")->text == "drop chance=1%");
  CHECK(delay_rule("50us")->match.direction == Direction::in);
  CHECK_FALSE(rate_rule(ActionKind::drop, "x"));
}
