// `verbena timeline`: a ladder diagram of a scenario or of a capture.
#include <fmt/format.h>
#include <unistd.h>

#include <sys/ioctl.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/scenario_files.h"
#include "sim/scenario/run.h"
#include "sim/timeline.h"

namespace verbena::cli {
namespace {

struct TimelineOptions {
  std::string file;
  std::string svg;
  std::string html;
  std::size_t packets_max = sim::arrows_max_default;
  std::optional<std::size_t> width;
  std::optional<std::uint64_t> seed;
  bool sweep = false;
};

/// Where the output goes to no terminal.
constexpr std::size_t width_default = 132;

std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return width_default;
}

int complain(const std::string& text) {
  fmt::print(stderr, "verbena timeline: {}\n", text);
  return exit_failed;
}

using Timelines = std::vector<sim::Timeline>;

Result<Timelines, std::string> read_timelines(const TimelineOptions& options) {
  if (!options.file.ends_with(".toml")) {
    auto timeline = sim::timeline_of_capture(options.file, options.packets_max);
    if (!timeline) {
      return std::unexpected(timeline.error());
    }
    return Timelines{*std::move(timeline)};
  }
  const auto scenarios = read_scenarios(options.file);
  if (!scenarios) {
    return std::unexpected(scenarios.error());
  }
  Timelines timelines;
  for (const sim::Scenario& scenario : *scenarios) {
    const auto result = sim::run_scenario(scenario, {.seed = options.seed});
    if (!result) {
      return std::unexpected(result.error());
    }
    const bool is_row = options.sweep && !scenario.variant.empty();
    const std::string& title = is_row ? scenario.variant : scenario.title;
    timelines.push_back(sim::timeline_of(*result, title, options.packets_max));
    if (!options.sweep) {
      break;
    }
  }
  return timelines;
}

bool write_file(const std::string& path, const std::string& text) {
  if (path.empty()) {
    return true;
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    complain(fmt::format("{}: {}", path, std::strerror(errno)));
    return false;
  }
  return true;
}

int run(const TimelineOptions& options) {
  const auto timelines = read_timelines(options);
  if (!timelines) {
    return complain(timelines.error());
  }
  if (options.svg.empty() && options.html.empty()) {
    fmt::print("{}", sim::render_text(*timelines, options.width.value_or(terminal_width())));
    return exit_ok;
  }
  const bool written =
      (options.svg.empty() || write_file(options.svg, sim::render_svg(*timelines))) &&
      (options.html.empty() || write_file(options.html, sim::render_html(*timelines)));
  return written ? exit_ok : exit_failed;
}

}  // namespace

void add_timeline(CLI::App& app, int& status) {
  auto options = std::make_shared<TimelineOptions>();
  CLI::App* command = app.add_subcommand(
      "timeline", "Draw what happens in a scenario or capture: hosts as columns, time downwards");
  command->add_option("FILE", options->file, "A scenario (.toml) or a capture (pcap, pcapng)")
      ->required();
  command->add_option("--svg", options->svg, "Write a picture instead of text")->type_name("FILE");
  command->add_option("--html", options->html, "Write a page with the picture instead of text")
      ->type_name("FILE");
  command->add_option("-n,--count", options->packets_max, "Show so many packets at most")
      ->type_name("COUNT");
  command->add_option("--width", options->width, "Characters a line; by default the terminal's")
      ->type_name("COUNT");
  command->add_flag("--sweep", options->sweep,
                    "Draw all rows of a sweep beside each other, not only the first");
  command->add_option("--seed", options->seed, "Instead of the scenario's own")->type_name("SEED");
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace verbena::cli
