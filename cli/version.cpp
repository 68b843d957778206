// `verbena version`.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_status.h"

namespace verbena::cli {

void add_version(CLI::App& app, int& status) {
  auto is_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("version", "Tell the version");
  command->add_flag("--json", *is_json, "As a JSON object");
  command->callback([is_json, &status] {
    if (*is_json) {
      fmt::print("{{\"name\":\"verbena\",\"version\":\"{}\"}}\n", VERBENA_VERSION);
    } else {
      fmt::print("verbena {}\n", VERBENA_VERSION);
    }
    status = exit_ok;
  });
}

}  // namespace verbena::cli
