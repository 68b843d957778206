// `verbena sim`: runs scenario files and tells whether what they expect came out.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/scenario_files.h"
#include "faults/units.h"
#include "pcap/pcapng_writer.h"
#include "sim/scenario/run.h"

namespace verbena::cli {
namespace {

struct SimOptions {
  std::vector<std::string> files;
  std::optional<std::uint64_t> seed;
  std::string capture;
  std::vector<std::string> taps;
  bool is_list = false;
  bool is_json = false;
  bool is_trace = false;
};

int complain(const std::string& text) {
  fmt::print(stderr, "verbena sim: {}\n", text);
  return exit_failed;
}

std::string name_of(const sim::Scenario& scenario) {
  return scenario.variant.empty() ? scenario.file
                                  : fmt::format("{} [{}]", scenario.file, scenario.variant);
}

void print_json(const sim::Scenario& scenario, const sim::ScenarioResult& result) {
  nlohmann::json mismatches = nlohmann::json::array();
  for (const sim::Mismatch& mismatch : result.mismatches) {
    mismatches.push_back({{"line", mismatch.place.line},
                          {"column", mismatch.place.column},
                          {"message", mismatch.message}});
  }
  const nlohmann::json report{{"file", scenario.file},
                              {"variant", scenario.variant},
                              {"title", scenario.title},
                              {"passed", result.passed()},
                              {"seed", result.seed},
                              {"trace_hash", fmt::format("{:016x}", result.hash)},
                              {"packets", result.packets},
                              {"events", result.events},
                              {"end_ns", result.end.time_since_epoch().count()},
                              {"mismatches", mismatches}};
  fmt::print("{}\n", report.dump());
}

void print_text(const SimOptions& options, const sim::Scenario& scenario,
                const sim::ScenarioResult& result) {
  fmt::print("{}  {}  {} packets, {}, seed {}, hash {:016x}\n", result.passed() ? "ok  " : "FAIL",
             name_of(scenario), result.packets,
             faults::duration_text(result.end.time_since_epoch()), result.seed, result.hash);
  if (options.is_trace) {
    for (std::size_t i = 0; i < result.trace.size(); ++i) {
      fmt::print("    {}\n", sim::trace_line(result, i));
    }
  }
  for (const sim::Mismatch& mismatch : result.mismatches) {
    fmt::print("{}\n", sim::explain(scenario, result, mismatch));
  }
}

/// Whether it ran and everything expected came out.
bool run_one(const SimOptions& options, const sim::Scenario& scenario,
             pcap::PcapngWriter* capture) {
  const auto result =
      sim::run_scenario(scenario, {.seed = options.seed, .capture = capture, .taps = options.taps});
  if (!result) {
    complain(result.error());
    return false;
  }
  if (options.is_json) {
    print_json(scenario, *result);
  } else {
    print_text(options, scenario, *result);
  }
  return result->passed();
}

/// One line a file, however many rows its sweep has.
void list(const std::vector<sim::Scenario>& scenarios) {
  const std::string runs =
      scenarios.size() > 1 ? fmt::format(" ({} runs)", scenarios.size()) : std::string();
  fmt::print("{:<48} {}{}\n", scenarios.front().file, scenarios.front().title, runs);
}

int run_all(const SimOptions& options, const std::vector<std::string>& files,
            pcap::PcapngWriter* capture) {
  std::size_t runs = 0;
  std::size_t failures = 0;
  for (const std::string& file : files) {
    const auto scenarios = read_scenarios(file);
    if (!scenarios) {
      ++failures;
      complain(scenarios.error());
    } else if (options.is_list) {
      list(*scenarios);
    } else {
      for (const sim::Scenario& scenario : *scenarios) {
        ++runs;
        failures += run_one(options, scenario, capture) ? 0 : 1;
      }
    }
  }
  if (runs > 1 && !options.is_json) {
    fmt::print("{} runs of {} files, {} failed\n", runs, files.size(), failures);
  }
  return failures == 0 ? exit_ok : exit_failed;
}

int run(SimOptions options) {
  if (options.files.empty()) {
    if (!options.is_list) {
      fmt::print(stderr, "verbena sim: name scenario files, or a directory of them.\n");
      return exit_usage;
    }
    options.files = {"scenarios"};
  }
  const auto files = scenario_files(options.files);
  if (!files) {
    return complain(files.error());
  }
  if (options.capture.empty()) {
    return run_all(options, *files, nullptr);
  }
  auto writer = pcap::PcapngWriter::open(options.capture, {.application = "Verbena simulator"});
  if (!writer) {
    return complain(writer.error().text);
  }
  const int status = run_all(options, *files, &*writer);
  if (const auto closed = writer->close(); !closed) {
    return complain(closed.error().text);
  }
  if (!options.is_json) {
    fmt::print("captured to {}\n", writer->path());
  }
  return status;
}

}  // namespace

void add_sim(CLI::App& app, int& status) {
  auto options = std::make_shared<SimOptions>();
  CLI::App* command =
      app.add_subcommand("sim", "Run scenarios in simulated time and check what comes out");
  command->add_option("FILE", options->files,
                      "Scenario files, or directories of them; - is standard input");
  command->add_option("--seed", options->seed, "Instead of the scenarios' own")->type_name("SEED");
  command
      ->add_option("--capture", options->capture, "Write what all hosts send and receive as pcapng")
      ->type_name("FILE");
  command
      ->add_option("--tap", options->taps,
                   "Capture at this host, or \"switch\"; may be repeated; by default at all hosts")
      ->type_name("NAME");
  command->add_flag("--trace", options->is_trace, "Print everything that happens, one line each");
  command->add_flag("--json", options->is_json, "One JSON object per scenario and line");
  command->add_flag("--list", options->is_list,
                    "List the scenarios with their titles (by default those of ./scenarios)");
  command->footer("The exit status is 0 only if all expectations of all scenarios hold.");
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace verbena::cli
