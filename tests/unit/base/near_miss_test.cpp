// "Did you mean": near words are found, far ones are not.
#include "base/near_miss.h"

#include <array>
#include <catch2/catch.hpp>

namespace verbena {
namespace {

constexpr std::array<std::string_view, 4> commands{"run", "devices", "dump", "version"};

TEST_CASE("a mistyped word is near to what was meant") {
  CHECK(near_miss("dmp", commands) == "dump");
  CHECK(near_miss("dumpp", commands) == "dump");
  CHECK(near_miss("dunp", commands) == "dump");
  CHECK(near_miss("device", commands) == "devices");
}

TEST_CASE("two neighbours that are swapped are one mistake") {
  CHECK(near_miss("verison", commands) == "version");
  CHECK(near_miss("rnu", commands) == "run");
}

TEST_CASE("upper and lower case make no difference") {
  CHECK(near_miss("RUNS", commands) == "run");
  CHECK(near_miss("VERISON", commands) == "version");
}

TEST_CASE("of two near words the nearer one is meant") {
  constexpr std::array<std::string_view, 3> words{"write_imm", "writes", "write"};
  CHECK(near_miss("wrte", words) == "write");
  CHECK(near_miss("write_im", words) == "write_imm");
}

TEST_CASE("a word that is near to nothing gives no suggestion") {
  CHECK_FALSE(near_miss("ib_write_bw", commands));
  CHECK_FALSE(near_miss("", commands));
  CHECK_FALSE(near_miss("xy", commands));
  CHECK_FALSE(near_miss(std::string(1'000'000, 'd'), commands));
}

TEST_CASE("a suggestion follows an error's sentence, or nothing does") {
  CHECK(did_you_mean("dmp", commands) == " Did you mean dump?");
  CHECK(did_you_mean("xy", commands).empty());
}

}  // namespace
}  // namespace verbena
