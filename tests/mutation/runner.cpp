// Runs all scenarios of the files and directories named, each file in a process of its own, and
// prints the names of those that fail, crash or don't end: what `verbena sim` does, for a transport
// that is broken on purpose.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "cli/scenario_files.h"
#include "sim/scenario/run.h"

namespace {

/// Of processor time. No file takes more than a few; a broken transport may loop for ever.
constexpr rlimit seconds_max{.rlim_cur = 20, .rlim_max = 20};

bool passes(const std::string& file) {
  const auto scenarios = verbena::cli::read_scenarios(file);
  if (!scenarios) {
    std::fprintf(stderr, "%s\n", scenarios.error().c_str());
    return false;
  }
  for (const auto& scenario : *scenarios) {
    const auto result = verbena::sim::run_scenario(scenario, {});
    if (!result || !result->passed()) {
      return false;
    }
  }
  return true;
}

/// "fails", "crashes" or "never ends"; nullptr if it passes.
const char* outcome_of(const std::string& file) {
  const pid_t child = fork();
  if (child == 0) {
    setrlimit(RLIMIT_CPU, &seconds_max);
    _exit(passes(file) ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) {
    return "can't be run";
  }
  if (WIFSIGNALED(status)) {
    return WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL ? "never ends" : "crashes";
  }
  return WEXITSTATUS(status) == 0 ? nullptr : "fails";
}

}  // namespace

int main(int argc, char** argv) {
  const auto files = verbena::cli::scenario_files({argv + 1, argv + argc});
  if (!files) {
    std::fprintf(stderr, "%s\n", files.error().c_str());
    return 2;
  }
  bool all_pass = true;
  for (const std::string& file : *files) {
    if (const char* const outcome = outcome_of(file)) {
      all_pass = false;
      std::printf("%s %s\n", file.c_str(), outcome);
      std::fflush(stdout);
    }
  }
  return all_pass ? 0 : 1;
}
