// The sub-commands of `verbena`, one file each. Each function adds its sub-command to the parser;
// `status` receives the exit status when it has run.
#pragma once

#include <string>
#include <vector>

// CLI11 is slow to compile.
namespace CLI {  // NOLINT(readability-identifier-naming): the library chose it
class App;
}

namespace verbena::cli {

/// `program` is what follows "--" on the command line: a command and its arguments.
void add_run(CLI::App& app, int& status, const std::vector<std::string>& program);
void add_devices(CLI::App& app, int& status);
void add_counters(CLI::App& app, int& status);
void add_top(CLI::App& app, int& status);
void add_inject(CLI::App& app, int& status);
void add_lab(CLI::App& app, int& status, const std::vector<std::string>& program);
void add_doctor(CLI::App& app, int& status);
void add_dump(CLI::App& app, int& status);
void add_version(CLI::App& app, int& status);
void add_sim(CLI::App& app, int& status);
void add_timeline(CLI::App& app, int& status);
void add_swarm(CLI::App& app, int& status);
void add_xcheck(CLI::App& app, int& status);

}  // namespace verbena::cli
