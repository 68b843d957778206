// Timelines: what a diagram says about a scenario, as text and as SVG.
#include "sim/timeline.h"

#include <catch2/catch.hpp>

using namespace verbena;
using namespace verbena::sim;
using Catch::Contains;

namespace {

Timeline timeline_of_text(std::string_view toml, std::size_t arrows_max = 100) {
  const auto scenarios = load_scenarios(toml, "t.toml");
  REQUIRE(scenarios);
  const auto result = run_scenario(scenarios->front(), {});
  REQUIRE(result);
  return timeline_of(*result, "A <title>", arrows_max);
}

constexpr std::string_view loss = R"(
[[fault]]
action = "drop"
opcode = "WRITE_MIDDLE"
count = 1
[story]
steps = ["client write 1 from=source to=target length=4000", "wait client 1"]
)";

}  // namespace

TEST_CASE("a timeline has an arrow a packet, with its fate") {
  const Timeline timeline = timeline_of_text(loss);
  CHECK(timeline.columns == std::vector<std::string>{"client", "server"});
  REQUIRE(timeline.arrows.size() == 9);
  CHECK(timeline.arrows[1].is_lost);
  CHECK_FALSE(timeline.arrows[1].arrived);
  CHECK(timeline.arrows[4].style == Timeline::Style::refusal);
  CHECK(timeline.arrows[5].is_again);
  CHECK(timeline.notes.size() == 2);
}

TEST_CASE("the text names hosts, packets, losses and completions") {
  const std::string text = render_text(timeline_of_text(loss), 120);
  CHECK_THAT(text, Contains("client") && Contains("server"));
  CHECK_THAT(text, Contains("WRITE_MIDDLE psn=1") && Contains("lost"));
  CHECK_THAT(text, Contains("retransmission 1 after a NAK"));
  CHECK_THAT(text, Contains("* wr 1: rdma_write success"));
  // A narrow terminal cuts labels, nothing else.
  CHECK_THAT(render_text(timeline_of_text(loss), 10), Contains("client"));
}

TEST_CASE("the SVG escapes what it shows") {
  const std::string svg = render_svg(timeline_of_text(loss));
  CHECK_THAT(svg, Contains("A &lt;title&gt;") && !Contains("<title>"));
  CHECK_THAT(svg, Contains("class=\"request again\""));
}

TEST_CASE("a diagram has at most so many arrows and says how many it left out") {
  const Timeline timeline = timeline_of_text(loss, 3);
  CHECK(timeline.arrows.size() == 3);
  CHECK(timeline.arrows_left_out == 6);
  CHECK_THAT(render_text(timeline, 100), Contains("and 6 more packets"));
}
