// Runs all scenarios of the files and directories named and stops at the first that fails: what
// `verbena sim` does, without the rest of the command.
#include <cstdio>
#include <string>
#include <vector>

#include "cli/scenario_files.h"
#include "sim/scenario/run.h"

int main(int argc, char** argv) {
  const auto files = verbena::cli::scenario_files({argv + 1, argv + argc});
  if (!files) {
    std::fprintf(stderr, "%s\n", files.error().c_str());
    return 2;
  }
  for (const std::string& file : *files) {
    const auto scenarios = verbena::cli::read_scenarios(file);
    if (!scenarios) {
      std::fprintf(stderr, "%s\n", scenarios.error().c_str());
      return 2;
    }
    for (const auto& scenario : *scenarios) {
      const auto result = verbena::sim::run_scenario(scenario, {});
      if (!result || !result->passed()) {
        std::printf("%s %s\n", file.c_str(), scenario.variant.c_str());
        return 1;
      }
    }
  }
  return 0;
}
