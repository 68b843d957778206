// Links: rate, delay, queue limit, MTU and what fault rules do to frames, to the nanosecond.
#include "sim/channel.h"

#include <catch2/catch.hpp>
#include <vector>

#include "faults/parse.h"

using namespace verbena;
using namespace verbena::sim;

namespace {

/// Notes when which frame arrives.
class Recorder final : public Station {
 public:
  Recorder(World& world, StationId id, bool is_host)
      : Station(world, id, "recorder"), is_host_(is_host) {}
  void receive(FrameRef frame) override {
    arrivals.emplace_back(world_.now.time_since_epoch().count(), world_.frames.at(frame).bytes[0]);
    world_.frames.give_back(frame);
  }
  void on_room() override { ++rooms; }
  [[nodiscard]] bool is_host() const override { return is_host_; }

  std::vector<std::pair<std::int64_t, std::byte>> arrivals;
  int rooms = 0;

 private:
  bool is_host_;
};

struct Wire {
  explicit Wire(const LinkConfig& config, bool from_host = true)
      : from(world, StationId{0}, from_host),
        to(world, StationId{1}, true),
        channel(world, config, from, to) {}

  void send(int mark, std::size_t bytes) {
    const FrameRef ref = world.frames.take();
    world.frames.at(ref).bytes.assign(bytes, std::byte{0});
    world.frames.at(ref).bytes[0] = static_cast<std::byte>(mark);
    channel.send(ref);
  }
  void fault(const char* text) { world.faults.add({*faults::parse_rule(text)}); }
  void run() {
    while (!world.queue.empty()) {
      const Event event = world.queue.pop();
      world.now = event.time;
      event.handler->on_event(event.time, event.token);
    }
  }
  std::vector<int> order() const {
    std::vector<int> marks;
    for (const auto& [time, mark] : to.arrivals) {
      marks.push_back(std::to_integer<int>(mark));
    }
    return marks;
  }

  World world{1};
  Recorder from;
  Recorder to;
  Channel channel;
};

/// 1 Gb/s is 8 ns a byte; 76 bytes and 24 of overhead take 800 ns.
constexpr LinkConfig gigabit{.bits_per_second = 1'000'000'000, .delay = Duration(50)};
constexpr std::size_t hundred_with_overhead = 76;

}  // namespace

TEST_CASE("a frame takes its bits at the rate, and the delay") {
  Wire wire(gigabit);
  wire.send(1, hundred_with_overhead);
  wire.send(2, hundred_with_overhead);
  wire.run();
  REQUIRE(wire.to.arrivals.size() == 2);
  CHECK(wire.to.arrivals[0].first == 800 + 50);
  CHECK(wire.to.arrivals[1].first == 1'600 + 50);
  CHECK(wire.world.frames.in_use() == 0);
}

TEST_CASE("a host is told to wait while its queue is full, and called when there is room") {
  LinkConfig config = gigabit;
  config.queue_bytes_max = 100;
  Wire wire(config);
  CHECK(wire.channel.has_room());
  wire.send(1, 76);
  CHECK(wire.channel.has_room());
  wire.send(2, 76);
  CHECK_FALSE(wire.channel.has_room());
  CHECK_FALSE(wire.channel.has_room());
  wire.run();
  CHECK(wire.from.rooms == 1);
  CHECK(wire.channel.has_room());
}

TEST_CASE("a switch's queue drops at the tail") {
  LinkConfig config = gigabit;
  config.queue_bytes_max = 200;
  Wire wire(config, false);
  for (int i = 0; i < 5; ++i) {
    wire.send(i, 76);
  }
  wire.run();
  CHECK(wire.order() == std::vector{0, 1});
  CHECK(wire.world.trace.count(TraceKind::lost) == 3);
}

TEST_CASE("frames longer than the MTU are lost, and all while the link is down") {
  LinkConfig config = gigabit;
  config.frame_bytes_max = 100;
  Wire wire(config);
  wire.send(1, 101);
  wire.send(2, 100);
  wire.channel.set_up(false);
  wire.send(3, 60);
  wire.channel.set_up(true);
  wire.send(4, 60);
  wire.run();
  CHECK(wire.order() == std::vector{2, 4});
}

TEST_CASE("fault rules drop, delay, duplicate and reorder on the wire") {
  SECTION("drop") {
    Wire wire(gigabit);
    wire.fault("drop nth=2");
    for (int i = 1; i <= 3; ++i) {
      wire.send(i, 60);
    }
    wire.run();
    CHECK(wire.order() == std::vector{1, 3});
  }
  SECTION("delay: others overtake") {
    Wire wire(gigabit);
    wire.fault("delay by=1ms nth=1");
    wire.send(1, 60);
    wire.send(2, 60);
    wire.run();
    CHECK(wire.order() == std::vector{2, 1});
  }
  SECTION("duplicate") {
    Wire wire(gigabit);
    wire.fault("duplicate copies=2 nth=1");
    wire.send(1, 60);
    wire.send(2, 60);
    wire.run();
    CHECK(wire.order() == std::vector{1, 1, 1, 2});
  }
  SECTION("reorder: behind exactly that many") {
    Wire wire(gigabit);
    wire.fault("reorder behind=2 nth=1");
    for (int i = 1; i <= 4; ++i) {
      wire.send(i, 60);
    }
    wire.run();
    CHECK(wire.order() == std::vector{2, 3, 1, 4});
  }
  SECTION("reorder: not for ever if nothing follows") {
    Wire wire(gigabit);
    wire.fault("reorder behind=2");
    wire.send(1, 60);
    wire.run();
    REQUIRE(wire.order() == std::vector{1});
    CHECK(wire.to.arrivals[0].first >= reorder_hold_max.count());
  }
}
