// When acknowledgements wait for the application's reply: only for one that has shown to reply.
#include "ports/answer_patience.h"

#include <catch2/catch.hpp>
#include <chrono>

namespace verbena::ports {
namespace {

using namespace std::chrono_literals;

constexpr Duration limit = 10us;

/// Frames come every millisecond, and the application replies `delay` later each time.
void exchange(AnswerPatience& patience, int times, Duration delay) {
  static Time now{};
  for (int i = 0; i < times; ++i) {
    now += 1ms;
    patience.received(now, patience.willing());
    patience.replied(now + delay);
    patience.sent();
  }
}

/// Frames come, and nobody replies.
void disappoint(AnswerPatience& patience, int times) {
  for (int i = 0; i < times; ++i) {
    patience.received(Time{}, patience.willing());
    patience.sent();
  }
}

TEST_CASE("a program that has not replied yet is not waited for") {
  AnswerPatience patience(limit);
  CHECK_FALSE(patience.willing());
  disappoint(patience, 1000);
  CHECK_FALSE(patience.willing());
}

TEST_CASE("a program that replies soon, time and again, is waited for") {
  AnswerPatience patience(limit);
  exchange(patience, 1, 1us);
  CHECK_FALSE(patience.willing());
  exchange(patience, 20, limit);
  CHECK(patience.willing());
}

TEST_CASE("replies that come late don't count") {
  AnswerPatience patience(limit);
  exchange(patience, 1000, limit + 1ns);
  CHECK_FALSE(patience.willing());
}

TEST_CASE("a few late replies are forgiven, a change of mind is noticed") {
  AnswerPatience patience(limit);
  exchange(patience, 1000, 1us);
  exchange(patience, 4, 5ms);
  CHECK(patience.willing());
  disappoint(patience, 20);
  CHECK_FALSE(patience.willing());
}

TEST_CASE("answers are held until they are sent") {
  AnswerPatience patience(limit);
  patience.received(Time{}, true);
  CHECK(patience.holding());
  // More frames whose answers go out at once don't end the hold of the first.
  patience.received(Time{}, false);
  CHECK(patience.holding());
  patience.sent();
  CHECK_FALSE(patience.holding());
}

}  // namespace
}  // namespace verbena::ports
