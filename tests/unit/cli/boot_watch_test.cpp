// When a guest of the lab is given up: not for being slow, but for saying nothing, or no end of it.
#include "cli/boot_watch.h"

#include <catch2/catch.hpp>
#include <chrono>

namespace verbena::cli {
namespace {

using namespace std::chrono_literals;

constexpr BootWatch::Time start{1000s};

TEST_CASE("a guest that says something now and then is slow, not stuck", "[lab]") {
  BootWatch watch(start);
  std::uintmax_t said = 0;
  for (auto at = start; at <= start + boot_limit; at += boot_silence_limit - 1s) {
    CHECK_FALSE(watch.is_stuck(at, ++said));
  }
}

TEST_CASE("a guest that says nothing any more is stuck", "[lab]") {
  BootWatch watch(start);
  CHECK_FALSE(watch.is_stuck(start + 5s, 100));
  CHECK_FALSE(watch.is_stuck(start + 5s + boot_silence_limit, 100));
  CHECK(watch.is_stuck(start + 6s + boot_silence_limit, 100));
}

TEST_CASE("a guest that never said anything is stuck", "[lab]") {
  BootWatch watch(start);
  CHECK_FALSE(watch.is_stuck(start + boot_silence_limit, 0));
  CHECK(watch.is_stuck(start + boot_silence_limit + 1s, 0));
}

TEST_CASE("a guest that complains for ever is stuck", "[lab]") {
  BootWatch watch(start);
  CHECK_FALSE(watch.is_stuck(start + boot_limit, 100));
  CHECK(watch.is_stuck(start + boot_limit + 1s, 200));
}

}  // namespace
}  // namespace verbena::cli
