// iWARP in the simulator: connections by MPA over TCP, in frames that a trace reads; what a
// scenario can say about them, and that a run with losses is the same every time.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "proto/inet/tcp/frame.h"
#include "proto/roce/gid.h"
#include "sim/scenario/run.h"
#include "sim/simulation.h"
#include "sim/tcp_host.h"
#include "sim/timeline.h"

using namespace verbena;
using namespace verbena::sim;
using Catch::Contains;

namespace {

constexpr std::string_view lossy = R"(
transport = "iwarp"
limit = "300s"
[[fault]]
action = "drop"
chance = "10%"
[story]
steps = [
  "client write 1 from=source to=target length=20000",
  "client read 2 from=target into=result length=20000",
  "wait client 2",
]
[expect]
memory = ["result == source length=20000"]
)";

std::string load_error(std::string_view toml) {
  const auto scenarios = load_scenarios(toml, "s.toml");
  REQUIRE_FALSE(scenarios);
  return scenarios.error();
}

ScenarioResult run(std::string_view toml, std::optional<std::uint64_t> seed = std::nullopt) {
  const auto scenarios = load_scenarios(toml, "s.toml");
  REQUIRE(scenarios);
  auto result = run_scenario(scenarios->front(), {.seed = seed});
  REQUIRE(result);
  return *std::move(result);
}

std::string run_error(std::string_view toml) {
  const auto scenarios = load_scenarios(toml, "s.toml");
  REQUIRE(scenarios);
  const auto result = run_scenario(scenarios->front(), {});
  REQUIRE_FALSE(result);
  return result.error();
}

/// The names of what is sent, in order.
std::vector<std::string> names_of(const ScenarioResult& result) {
  std::vector<std::string> names;
  for (const TraceEvent& event : result.trace) {
    if (event.kind == TraceKind::sent) {
      names.push_back(short_name(event.packet));
    }
  }
  return names;
}

/// Two hosts with TCP and a queue pair each, in INIT.
struct TwoHosts {
  TwoHosts() {
    const auto config = [](const char* name, const char* address) {
      NodeConfig result;
      result.name = name;
      result.gid = *roce::gid_from_text(address);
      result.technology = nic::Technology::iwarp;
      return result;
    };
    client = &world.add_node(config("client", "10.0.0.1"));
    server = &world.add_node(config("server", "10.0.0.2"));
    static_cast<void>(world.connect(*client, *server, LinkConfig{}));
    world.trace().set_recording(true);
    client_qp = &init_qp(*client);
    server_qp = &init_qp(*server);
  }

  nic::Qp& init_qp(Node& node) {
    const auto qp = node.nic().create_qp(
        node.pd(), {.send_cq = &node.cq(), .recv_cq = &node.cq(), .caps = {4, 4, 1, 1, 0}});
    REQUIRE(qp);
    nic::QpAttr attr;
    attr.state = nic::QpState::init;
    REQUIRE(node.nic().modify_qp(world.now(), **qp, attr, nic::qp_attr_mask::state));
    return **qp;
  }
  static TcpHost::Endpoint endpoint(std::uint16_t local_port, std::uint16_t peer_port) {
    TcpHost::Endpoint result;
    result.local_port = local_port;
    result.peer = {{10, 0, 0, 2}};
    result.peer_port = peer_port;
    return result;
  }
  void run() { world.run_until(world.now() + Duration(1'000'000'000)); }
  [[nodiscard]] std::vector<std::string> names() {
    std::vector<std::string> names;
    for (const TraceEvent& event : world.trace().events()) {
      if (event.kind == TraceKind::sent) {
        names.push_back(short_name(event.packet));
      }
    }
    return names;
  }

  Simulation world{1};
  Node* client = nullptr;
  Node* server = nullptr;
  nic::Qp* client_qp = nullptr;
  nic::Qp* server_qp = nullptr;
};

}  // namespace

TEST_CASE("a port where nobody listens answers with a reset, and the queue pair stays in INIT") {
  TwoHosts hosts;
  hosts.server->tcp().listen(*hosts.server_qp, TwoHosts::endpoint(7471, 0));
  hosts.client->tcp().connect(*hosts.client_qp, TwoHosts::endpoint(50'000, 7472));
  CHECK(hosts.client->tcp().is_connecting(*hosts.client_qp));
  hosts.client->drive();
  hosts.run();
  CHECK(hosts.names() == std::vector<std::string>{"SYN", "RST"});
  CHECK_FALSE(hosts.client->tcp().is_connecting(*hosts.client_qp));
  CHECK(nic::state_of(*hosts.client_qp) == nic::QpState::init);
  // And may try again where somebody does.
  hosts.client->tcp().connect(*hosts.client_qp, TwoHosts::endpoint(50'001, 7471));
  hosts.client->drive();
  hosts.run();
  CHECK(nic::state_of(*hosts.client_qp) == nic::QpState::rts);
  CHECK(nic::state_of(*hosts.server_qp) == nic::QpState::rts);
}

TEST_CASE("a queue pair that is destroyed takes its connection along, and the peer is told") {
  TwoHosts hosts;
  hosts.server->tcp().listen(*hosts.server_qp, TwoHosts::endpoint(7471, 0));
  hosts.client->tcp().connect(*hosts.client_qp, TwoHosts::endpoint(50'000, 7471));
  hosts.client->drive();
  hosts.run();
  hosts.client->tcp().forget(*hosts.client_qp);
  REQUIRE(hosts.client->nic().destroy_qp(*hosts.client_qp));
  hosts.client->drive();
  hosts.run();
  CHECK(hosts.names().back() == "RST");
  CHECK(nic::state_of(*hosts.server_qp) == nic::QpState::err);
  // What still comes to the port finds nobody.
  CHECK(hosts.server->tcp().next_timeout() == time_never);
}

TEST_CASE("what iWARP doesn't have is refused when a scenario is read, with its place") {
  CHECK_THAT(load_error("transport = \"iwarp\"\n[[connection]]\nservice = \"ud\"\n"),
             Contains("s.toml:3:11: iWARP has reliable connections only"));
  CHECK_THAT(load_error("transport = \"iwarp\"\n[[host]]\nname = \"a\"\nnic = false\n"),
             Contains("s.toml:2:1: Scripted peers speak RoCE"));
  CHECK_THAT(load_error("transport = \"iwarp\"\n[[host]]\nname = \"a\"\naddress = \"fe80::1\"\n"),
             Contains("isn't an IPv4 address, which iwarp takes"));
}

TEST_CASE("a segment's name that there isn't is told, with what was meant") {
  const std::string toml = std::string("transport = \"iwarp\"\n[expect]\npackets = [") +
                           "\"client > server WRITE_LST\"]\n";
  CHECK_THAT(run_error(toml),
             Contains("No segment is named 'WRITE_LST'") && Contains("mean write_last?"));
}

TEST_CASE("a connection begins with both handshakes, before the story") {
  const ScenarioResult result = run("transport = \"iwarp\"\n");
  CHECK(names_of(result) ==
        std::vector<std::string>{"SYN", "SYN_ACK", "MPA_REQUEST", "MPA_REPLY", "RTR", "ACK"});
  const auto is_up = std::ranges::count_if(result.trace, [](const TraceEvent& event) {
    return event.kind == TraceKind::state && event.text.ends_with("RTS");
  });
  CHECK(is_up == 2);
}

TEST_CASE("losses over iWARP are the same for the same seed, and others for another") {
  const ScenarioResult first = run(lossy, 5);
  const ScenarioResult second = run(lossy, 5);
  CHECK(first.passed());
  CHECK(first.hash == second.hash);
  CHECK(first.packets == second.packets);
  CHECK(run(lossy, 6).hash != first.hash);
}

TEST_CASE("whatever 10 % of losses take away, everything arrives") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    REQUIRE(run(lossy, seed).passed());
  }
}

TEST_CASE(
    "a connection that never stands leaves the queue pairs in INIT, where posts are refused") {
  const ScenarioResult result = run(R"(
transport = "iwarp"
limit = "1000s"
[[fault]]
action = "drop"
to = "server"
[story]
steps = ["client write 1 from=source to=target length=8 refused=wrong_state"]
[expect]
states = ["client init", "server init"]
completions = []
)");
  CHECK(result.passed());
  // RFC 9293, 3.8.3: six more SYNs.
  CHECK(names_of(result) == std::vector<std::string>(7, "SYN"));
}

TEST_CASE("timelines lie beside each other in text and in one picture") {
  const std::array timelines{timeline_of(run("transport = \"iwarp\"\n"), "left", 100),
                             timeline_of(run("transport = \"roce_v1\"\n"), "right", 100)};
  const std::string text = render_text(timelines, 200);
  const std::string first_line = text.substr(0, text.find('\n'));
  CHECK(first_line.starts_with("left"));
  CHECK(first_line.find("right") == 100);
  CHECK_THAT(text, Contains("MPA_REQUEST"));
  const std::string svg = render_svg(timelines);
  CHECK_THAT(svg, Contains(">left<") && Contains(">right<"));
  // One file, of which each is a part.
  CHECK(svg.find("<svg", 1) == std::string::npos);
}

TEST_CASE("a frame with a wrong TCP checksum is dropped and comes again") {
  const ScenarioResult result = run(R"(
transport = "iwarp"
[[fault]]
action = "corrupt"
opcode = "WRITE_LAST"
count = 1
[story]
steps = ["client write 1 from=source to=target length=100", "wait quiet"]
[expect]
memory = ["target == source length=100"]
)");
  CHECK(result.passed());
  const auto names = names_of(result);
  CHECK(std::ranges::count(names, "WRITE_LAST") == 2);
}
