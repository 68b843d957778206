// "Did you mean": near words are found, far ones are not.
#include "cli/near_miss.h"

#include <catch2/catch.hpp>
#include <vector>

namespace verbena::cli {
namespace {

const std::vector<std::string> commands{"run", "devices", "dump", "version"};

TEST_CASE("a mistyped word is near to what was meant") {
  CHECK(near_miss("dmp", commands) == "dump");
  CHECK(near_miss("dumpp", commands) == "dump");
  CHECK(near_miss("device", commands) == "devices");
  CHECK(near_miss("verison", commands) == "version");
  CHECK(near_miss("rnu", commands) == "run");
}

TEST_CASE("a word that is near to nothing gives no suggestion") {
  CHECK_FALSE(near_miss("ib_write_bw", commands));
  CHECK_FALSE(near_miss("", commands));
  CHECK_FALSE(near_miss("xy", commands));
  CHECK_FALSE(near_miss(std::string(1'000'000, 'd'), commands));
}

}  // namespace
}  // namespace verbena::cli
