// Scenario files on disk, for the commands that take them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sim/scenario/scenario.h"

namespace verbena::cli {

/// The files that the arguments name: a directory stands for its *.toml, in order of their names.
[[nodiscard]] Result<std::vector<std::string>, std::string> scenario_files(
    const std::vector<std::string>& arguments);

/// The whole text of a file; "-" is standard input.
[[nodiscard]] Result<std::string, std::string> read_file(const std::string& path);

/// The scenarios of a file.
[[nodiscard]] Result<std::vector<sim::Scenario>, std::string> read_scenarios(
    const std::string& path);

}  // namespace verbena::cli
