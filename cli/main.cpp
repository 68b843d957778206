// The `verbena` command: parses the command line and hands it to a sub-command.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/near_miss.h"
#include "cli/commands.h"
#include "cli/exit_status.h"

namespace verbena::cli {
namespace {

/// What the words of a command line may be: names of sub-commands, or options of the sub-command
/// that was recognised.
struct Vocabulary {
  std::vector<std::string> commands;
  std::vector<std::string> options;
};

Vocabulary vocabulary_of(const CLI::App& app) {
  Vocabulary words;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    words.commands.push_back(command->get_name());
  }
  const auto parsed = app.get_subcommands();
  for (const CLI::Option* option : (parsed.empty() ? &app : parsed.front())->get_options()) {
    for (const std::string& name : option->get_lnames()) {
      words.options.push_back("--" + name);
    }
  }
  return words;
}

/// The parser's complaint as a sentence, with what was probably meant.
std::string explain(const CLI::App& app, const CLI::ParseError& error,
                    const std::vector<std::string>& arguments) {
  const Vocabulary words = vocabulary_of(app);
  const auto hint = [](std::string_view word, const std::vector<std::string>& candidates) {
    return did_you_mean(word, std::vector<std::string_view>(candidates.begin(), candidates.end()));
  };
  if (app.get_subcommands().empty() && !arguments.empty() && !arguments[0].starts_with('-')) {
    const std::string_view word = arguments[0];
    return fmt::format("there is no command {}.{}", word, hint(word, words.commands));
  }
  for (const std::string& argument : arguments) {
    const std::string word = argument.substr(0, argument.find('='));
    if (word.starts_with("--") && std::ranges::find(words.options, word) == words.options.end()) {
      return fmt::format("{}.{}", error.what(), hint(word, words.options));
    }
  }
  if ((app.got_subcommand("run") || app.got_subcommand("lab")) &&
      dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    return fmt::format("{}. Put -- before the command.", error.what());
  }
  return fmt::format("{}.", error.what());
}

/// What `verbena run` and `verbena lab run` run stands behind the first "--". It is no matter of
/// our parser, which would take some of its words for ours.
std::vector<std::string> take_program(std::vector<std::string>& arguments) {
  const auto mark = std::ranges::find(arguments, "--");
  const bool runs = !arguments.empty() && (arguments[0] == "run" || arguments[0] == "lab");
  if (!runs || mark == arguments.end()) {
    return {};
  }
  std::vector<std::string> program(mark + 1, arguments.end());
  arguments.erase(mark, arguments.end());
  return program;
}

int parse_and_run(std::vector<std::string> arguments) {
  const std::vector<std::string> program = take_program(arguments);
  CLI::App app(
      "An RDMA NIC made of software: runs unmodified verbs programs without RDMA hardware.",
      "verbena");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help for all commands");
  int status = exit_ok;
  add_run(app, status, program);
  add_devices(app, status);
  add_counters(app, status);
  add_top(app, status);
  add_inject(app, status);
  add_doctor(app, status);
  add_lab(app, status, program);
  add_dump(app, status);
  add_sim(app, status);
  add_timeline(app, status);
  add_swarm(app, status);
  add_xcheck(app, status);
  add_version(app, status);
  try {
    // The parser wants the words last to first, and to own them.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "verbena: {}\nTry verbena --help.\n", explain(app, error, arguments));
    return exit_usage;
  }
  return status;
}

}  // namespace
}  // namespace verbena::cli

int main(int argc, char** argv) {
  try {
    return verbena::cli::parse_and_run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "verbena: {}\n", error.what());
    return verbena::cli::exit_failed;
  }
}
