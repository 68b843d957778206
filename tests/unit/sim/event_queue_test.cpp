// The event queue: time first, then the order of scheduling, whatever the heap looks like inside.
#include "sim/event_queue.h"

#include <catch2/catch.hpp>
#include <tuple>

#include "base/prng.h"

using namespace verbena;
using namespace verbena::sim;

namespace {

struct Nobody final : EventHandler {
  void on_event(Time /*now*/, std::uint64_t /*token*/) override {}
};

}  // namespace

TEST_CASE("events come in the order of their time, and of scheduling at the same time") {
  EventQueue queue;
  Nobody nobody;
  Prng prng(7);
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    queue.schedule(Time(Duration(static_cast<std::int64_t>(prng.below(50)))), nobody, i);
    if (prng.chance({1, 4})) {
      // Emptied in between, but never put out of order by it.
      const Event taken = queue.pop();
      CHECK(taken.time <= queue.next_time());
    }
  }
  Event before{};
  while (!queue.empty()) {
    const Event event = queue.pop();
    REQUIRE(std::tuple(before.time, before.sequence) <= std::tuple(event.time, event.sequence));
    before = event;
  }
  CHECK(queue.next_time() == time_never);
}
