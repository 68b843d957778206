// Programs that this command starts: their status, and that nothing of a group outlives it.
#include "cli/child.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>

namespace verbena::cli {
namespace {

using namespace std::chrono_literals;

/// For what happens at once, on a machine that has other things to do.
constexpr auto patience = 60s;

ChildPlan shell(const std::string& command, bool leads_group) {
  return {.words = {"sh", "-c", command}, .leads_group = leads_group};
}

/// What it starts inherits the pipe's end, too, so that the pipe tells when all are gone.
std::string starts_another(int pipe_end) {
  return fmt::format("sleep 300 & echo up >/dev/fd/{}; wait", pipe_end);
}

/// Waits for what somebody writes; nothing when all who could are gone.
std::string next_word(int fd) {
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  REQUIRE(::poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(patience).count())) == 1);
  std::array<char, 8> bytes{};
  const auto count = ::read(fd, bytes.data(), bytes.size());
  REQUIRE(count >= 0);
  return {bytes.data(), static_cast<std::size_t>(count)};
}

}  // namespace

TEST_CASE("a child's status is the one a shell tells, with a group and without") {
  for (const bool leads_group : {false, true}) {
    INFO("leads a group: " << leads_group);
    CHECK(run_child(shell("exit 0", leads_group), patience).status == 0);
    CHECK(run_child(shell("exit 7", leads_group), patience).status == 7);
    CHECK(run_child(shell("kill -KILL $$", leads_group), patience).status == 128 + SIGKILL);
    CHECK(run_child({.words = {"/no/such/program"}, .leads_group = leads_group}, patience).status ==
          127);
  }
}

TEST_CASE("a child that is given up is ended with what it has started") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  auto child = Child::start(shell(starts_another(ends[1]), true));
  REQUIRE(child);
  ::close(ends[1]);
  pollfd started{.fd = ends[0], .events = POLLIN, .revents = 0};
  CHECK(child->wait(patience, [&] { return ::poll(&started, 1, 0) == 1; }).timed_out);
  CHECK(next_word(ends[0]) == "up\n");
  CHECK(next_word(ends[0]).empty());
  ::close(ends[0]);
}

// As far as it can be killed: what a build has started would write where the next one builds.
TEST_CASE("a group ends with the process that has started it, even by SIGKILL") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t starter = ::fork();
  REQUIRE(starter >= 0);
  if (starter == 0) {
    ::close(ends[0]);
    ::_exit(run_child(shell(starts_another(ends[1]), true), patience).status);
  }
  ::close(ends[1]);
  CHECK(next_word(ends[0]) == "up\n");
  REQUIRE(::kill(starter, SIGKILL) == 0);
  REQUIRE(::waitpid(starter, nullptr, 0) == starter);
  CHECK(next_word(ends[0]).empty());
  ::close(ends[0]);
}

}  // namespace verbena::cli
