// A CHECK that fails ends the process and says where.
#include "base/check.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <string>

#include "base/bytes.h"

namespace verbena {
namespace {

struct Death {
  int signal = 0;
  std::string message;
};

/// Runs `body` in a child process and tells how it died.
template <class Body>
Death death_of(Body body) {
  std::array<int, 2> pipe_ends{};
  REQUIRE(::pipe(pipe_ends.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    static_cast<void>(std::signal(SIGABRT, SIG_DFL));  // Catch's handler would report a failed test
    ::dup2(pipe_ends[1], STDERR_FILENO);
    body();
    ::_exit(0);
  }
  ::close(pipe_ends[1]);
  Death death;
  std::array<char, 256> chunk{};
  for (;;) {
    const ssize_t count = ::read(pipe_ends[0], chunk.data(), chunk.size());
    if (count <= 0) {
      break;
    }
    death.message.append(chunk.data(), static_cast<std::size_t>(count));
  }
  ::close(pipe_ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  death.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return death;
}

TEST_CASE("a failed CHECK aborts with its condition and its place", "[check]") {
  const Death death = death_of([] { VERBENA_CHECK(1 + 1 == 3); });
  REQUIRE(death.signal == SIGABRT);
  REQUIRE_THAT(death.message,
               Catch::Contains("CHECK failed: 1 + 1 == 3") && Catch::Contains("check_test.cpp:"));
}

TEST_CASE("a CHECK that holds does nothing", "[check]") {
  const Death death = death_of([] { VERBENA_CHECK(1 + 1 == 2); });
  REQUIRE(death.signal == 0);
  REQUIRE(death.message.empty());
}

TEST_CASE("reading or writing a struct beyond its bytes is a CHECK", "[check]") {
  std::array<std::byte, 3> three{};
  REQUIRE(death_of([&] { static_cast<void>(read_struct<std::uint32_t>(three)); }).signal ==
          SIGABRT);
  REQUIRE(death_of([&] { write_struct(three, std::uint32_t{1}); }).signal == SIGABRT);
  REQUIRE(death_of([&] { copy_bytes(MutableBytes(three).first(1), three); }).signal == SIGABRT);
}

}  // namespace
}  // namespace verbena
