// What of a dead guest's console is shown: the last lines, and all of a panic.
#include "cli/last_words.h"

#include <catch2/catch.hpp>

namespace verbena::cli {
namespace {

std::vector<std::string> console(std::size_t before, std::size_t after) {
  std::vector<std::string> lines(before, "[ 1.0] usual");
  lines.emplace_back("[ 2.0] Kernel panic - not syncing: sysrq triggered crash");
  lines.insert(lines.end(), after, "[ 2.1]  ? some_function+0x1/0x2");
  return lines;
}

TEST_CASE("of a guest that died of nothing that it knew, the last lines are shown", "[lab]") {
  CHECK(begin_of_last_words({}) == 0);
  CHECK(begin_of_last_words(std::vector<std::string>(7, "line")) == 0);
  CHECK(begin_of_last_words(std::vector<std::string>(1000, "line")) == 1000 - last_words_lines);
}

TEST_CASE("a panic is shown from its first line, however long its call trace is", "[lab]") {
  CHECK(begin_of_last_words(console(100, 60)) == 100);
  CHECK(begin_of_last_words(console(0, 60)) == 0);
  // Among the last lines anyway.
  CHECK(begin_of_last_words(console(100, 10)) == 111 - last_words_lines);
}

TEST_CASE("a panic of long ago isn't", "[lab]") {
  CHECK(begin_of_last_words(console(100, 1000)) == 1101 - last_words_lines);
}

}  // namespace
}  // namespace verbena::cli
