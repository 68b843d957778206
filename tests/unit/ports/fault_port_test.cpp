// Faults in front of a port, without a network and without a clock: what is lost, late, twice, out
// of order or changed, in both directions, and what a capture behind hears of it.
#include "ports/fault_port.h"

#include <chrono>

#include "faults/parse.h"
#include "proto/ib_bth/packet.h"
#include "proto/roce/decap.h"
#include "tests/unit/ports/fake_network.h"
#include "tests/unit/ports/support.h"
#include "tests/unit/ports/udp_frames.h"

namespace verbena::ports {
namespace {

using namespace std::chrono_literals;
using test::Network;
using test::send_frame;
using test::send_frame_bytes;
using test::Way;
using test::write_send;

constexpr std::size_t data_bytes = 64;

std::uint32_t psn_of(ByteView frame) {
  return ib::PacketView::parse(roce::parse_frame(frame)->transport)->psn().value();
}

/// A NIC's end of a fault port.
class Bench final : public FrameHandler {
 public:
  explicit Bench(const std::string& rules, std::uint64_t seed = 1)
      : Bench(std::make_unique<Network>(), rules, seed) {}

  /// One batch of an engine, at a time.
  void at(Duration time) {
    port.begin_batch(Time{} + time);
    port.poll_receive(*this, 64);
    port.flush();
  }
  bool send(std::uint32_t psn) {
    const MutableBytes frame = port.reserve(Way{}.route(), send_frame_bytes(data_bytes));
    if (frame.empty()) {
      return false;
    }
    write_send({}, frame, data_bytes, port.way_fields(), psn);
    port.commit({});
    return true;
  }
  void arrive(std::uint32_t psn) { network.arriving.push_back(send_frame({}, data_bytes, psn)); }

  [[nodiscard]] std::vector<std::uint32_t> sent() const { return psns(network.sent); }
  [[nodiscard]] std::vector<std::uint32_t> received() const { return psns(frames); }

  RxVerdict on_frame(ByteView frame) override {
    frames.emplace_back(frame.begin(), frame.end());
    return {};
  }

 private:
  using Frames = std::vector<std::vector<std::byte>>;

  Bench(std::unique_ptr<Network> inner, const std::string& rules, std::uint64_t seed)
      : network(*inner), port(std::move(inner), parse(rules), seed, Time{}) {}

  static faults::RuleSet parse(const std::string& rules) {
    faults::RuleSet set;
    if (!rules.empty()) {
      set.push_back(*faults::parse_rule(rules));
    }
    return set;
  }
  static std::vector<std::uint32_t> psns(const Frames& frames) {
    std::vector<std::uint32_t> numbers;
    for (const auto& frame : frames) {
      numbers.push_back(psn_of(frame));
    }
    return numbers;
  }

 public:
  Network& network;
  FaultPort port;
  Frames frames;
};

using Psns = std::vector<std::uint32_t>;

bool all_good(const std::vector<std::vector<std::byte>>& frames) {
  return std::ranges::all_of(
      frames, [](const auto& frame) { return roce::parse_frame(frame)->icrc_is_good(); });
}

}  // namespace

TEST_CASE("what no rule takes passes, in both directions") {
  Bench bench("drop psn=77");
  bench.send(1);
  bench.arrive(2);
  bench.at(0ms);
  CHECK(bench.sent() == Psns{1});
  CHECK(bench.received() == Psns{2});
  CHECK(bench.network.remarks == std::vector<std::string>{"", ""});
  CHECK(bench.port.statistics().frames_faulted == 0);
}

TEST_CASE("whether frames are unread, the port behind knows") {
  Bench bench("");
  for (const bool unread : {false, true}) {
    bench.network.unread = unread;
    CHECK(bench.port.is_unread(Way{}.route()) == unread);
  }
}

TEST_CASE("a lost frame is not sent, and a capture behind hears of it") {
  Bench bench("drop direction=out skip=1 count=1");
  for (const std::uint32_t psn : {1, 2, 3}) {
    bench.send(psn);
  }
  CHECK(bench.sent() == Psns{1, 3});
  CHECK(bench.network.lost ==
        std::vector<std::string>{"dropped by rule 1 (drop direction=out skip=1 count=1)"});
  CHECK(bench.port.statistics().frames_faulted == 1);
}

TEST_CASE("an arriving frame is lost on its last step") {
  Bench bench("drop direction=in count=1");
  bench.arrive(1);
  bench.arrive(2);
  bench.at(0ms);
  CHECK(bench.received() == Psns{2});
  CHECK(bench.network.remarks ==
        std::vector<std::string>{"dropped by rule 1 (drop direction=in count=1)", ""});
}

TEST_CASE("a late frame comes when its time has come, and the port says when that is") {
  Bench bench("delay by=1ms count=1");
  bench.at(0ms);
  bench.send(1);
  bench.send(2);
  bench.port.flush();
  CHECK(bench.sent() == Psns{2});
  CHECK(bench.port.next_deadline() == Time{} + 1ms);
  CHECK(bench.port.prepare_sleep());
  bench.at(999us);
  CHECK(bench.sent() == Psns{2});
  bench.at(1ms);
  CHECK(bench.sent() == Psns{2, 1});
  CHECK(bench.port.next_deadline() == time_never);
}

TEST_CASE("arriving frames are late as well") {
  Bench bench("delay direction=in by=1ms");
  bench.arrive(1);
  bench.at(0ms);
  CHECK(bench.received().empty());
  CHECK(bench.port.next_deadline() == Time{} + 1ms);
  bench.at(1ms);
  CHECK(bench.received() == Psns{1});
}

TEST_CASE("a repeated frame is sent twice, each time with a right ICRC under its own number") {
  Bench bench("duplicate count=1");
  bench.at(0ms);
  bench.send(1);
  bench.send(2);
  bench.port.flush();
  CHECK(bench.sent() == Psns{1, 1, 2});
  CHECK(all_good(bench.network.sent));
  CHECK(roce::parse_frame(bench.network.sent[1])->identification == 1);
}

TEST_CASE("a frame that is to be overtaken goes on behind the next, or after a while") {
  Bench bench("reorder behind=2 count=1");
  bench.at(0ms);
  for (const std::uint32_t psn : {1, 2, 3, 4}) {
    bench.send(psn);
  }
  CHECK(bench.sent() == Psns{2, 3, 1, 4});

  Bench lonely("reorder direction=in count=1");
  lonely.arrive(1);
  lonely.at(0ms);
  CHECK(lonely.received().empty());
  lonely.at(reorder_hold_max);
  CHECK(lonely.received() == Psns{1});
}

TEST_CASE("a changed frame is sent as it is: with a wrong ICRC") {
  Bench bench("corrupt count=1");
  bench.send(1);
  bench.send(2);
  REQUIRE(bench.network.sent.size() == 2);
  CHECK(!roce::parse_frame(bench.network.sent[0])->icrc_is_good());
  CHECK(roce::parse_frame(bench.network.sent[1])->icrc_is_good());
  CHECK_THAT(bench.network.remarks[0], Catch::Contains("by rule 1"));
}

TEST_CASE("a change in an arriving frame doesn't touch the memory it came in") {
  Bench bench("corrupt direction=in");
  bench.arrive(1);
  const auto original = bench.network.arriving[0];
  bench.at(0ms);
  REQUIRE(bench.frames.size() == 1);
  CHECK(bench.frames[0] != original);
}

TEST_CASE("a congestion mark reaches the IP header and the way") {
  Bench bench("mark direction=out");
  bench.send(1);
  bench.port.flush();
  REQUIRE(bench.network.sent.size() == 1);
  CHECK(roce::parse_frame(bench.network.sent[0])->ecn() == 3);
  CHECK(bench.network.last_route.traffic_class == 3);
}

TEST_CASE("frames that wait for a blocked way are sent when it has room, and cause no spinning") {
  Bench bench("delay by=1ms");
  bench.at(0ms);
  bench.send(1);
  bench.network.full = true;
  bench.at(2ms);
  CHECK(bench.port.next_deadline() == time_never);
  CHECK(bench.port.prepare_sleep());
  bench.network.full = false;
  bench.at(3ms);
  CHECK(bench.sent() == Psns{1});
}

TEST_CASE("too many waiting frames hold the sender back and lose nothing") {
  Bench bench("delay by=1s");
  std::uint32_t taken = 0;
  while (bench.send(taken)) {
    ++taken;
    REQUIRE(taken < 100'000);
  }
  bench.at(1s);
  CHECK(bench.sent().size() == taken);
  CHECK(bench.send(taken));
}

TEST_CASE("the seed decides which frames are met") {
  const auto met = [](std::uint64_t seed) {
    Bench bench("drop chance=1/4", seed);
    for (std::uint32_t psn = 0; psn < 200; ++psn) {
      bench.send(psn);
    }
    return bench.sent();
  };
  CHECK(met(1) == met(1));
  CHECK(met(1) != met(2));
}

}  // namespace verbena::ports
