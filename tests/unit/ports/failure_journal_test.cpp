// The journal of failures: what one process notes, whoever looks reads later, in order, and bytes
// that make no sense do no harm.
#include "ports/failure_journal.h"

#include <chrono>

#include "ports/sys.h"
#include "tests/unit/ports/fabric_fixture.h"

namespace verbena::ports {
namespace {

using test::join_fabric;
using test::TemporaryDirectory;
using namespace std::chrono_literals;

constexpr Time start{1h};

TEST_CASE("Nothing is known of a fabric that doesn't exist, or where nothing failed") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  CHECK(read_failures(path).value().empty());
  const auto fabric = join_fabric(path);
  CHECK(read_failures(path).value().empty());
}

TEST_CASE("Failures are told the oldest first, and outlive the process that had them") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto stays = join_fabric(path);
  auto leaves = join_fabric(path);
  note_failure(*leaves, start + 2s, "second");
  note_failure(*stays, start + 1s, "first");
  leaves.reset();
  const std::vector<Failure> expected = {{start + 1s, sys::process_id(), "first"},
                                         {start + 2s, sys::process_id(), "second"}};
  CHECK(read_failures(path).value() == expected);
}

TEST_CASE("The latest failures are kept") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto fabric = join_fabric(path);
  for (std::uint32_t i = 0; i < failures_max + 3; ++i) {
    note_failure(*fabric, start + std::chrono::seconds(i), std::to_string(i));
  }
  const auto failures = read_failures(path).value();
  REQUIRE(failures.size() == failures_max);
  CHECK(failures.front().sentence == "3");
  CHECK(failures.back().sentence == std::to_string(failures_max + 2));
}

TEST_CASE("A sentence that is too long is cut off") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto fabric = join_fabric(path);
  note_failure(*fabric, start, std::string(1000, 'x'));
  CHECK(read_failures(path).value().at(0).sentence ==
        std::string(std::size_t{failure_words} * 8, 'x'));
}

TEST_CASE("What a terminal might obey is not passed on") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto fabric = join_fabric(path);
  note_failure(*fabric, start, "\x1b[2Jgone\n\xff");
  CHECK(read_failures(path).value().at(0).sentence == "?[2Jgone??");
}

TEST_CASE("An entry that is being written is left out") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto fabric = join_fabric(path);
  note_failure(*fabric, start, "whole");
  note_failure(*fabric, start + 1s, "half");
  fabric->journal().entries[1].version.fetch_add(1);
  const auto failures = read_failures(path).value();
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].sentence == "whole");
}

}  // namespace
}  // namespace verbena::ports
