// `verbena doctor`: what is wrong here, in words, and what to do.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "cli/commands.h"
#include "cli/device_options.h"
#include "cli/doctor_checks.h"
#include "cli/exit_status.h"
#include "cli/observed.h"
#include "ports/device_config.h"

namespace verbena::cli {
namespace {

/// The error is a sentence about the options.
Result<Findings, std::string> examine(const DeviceOptions& options) {
  const auto devices = options.load_devices();
  if (!devices) {
    return std::unexpected(devices.error());
  }
  const std::set<std::string> fabrics = fabrics_of(*devices);
  const Observed observed = observe(fabrics);
  Findings findings;
  check_libraries(findings);
  if (const auto real = ports::load_real_devices(options.environment())) {
    check_real_devices(*real, findings);
  }
  for (const ports::DeviceConfig& device : *devices) {
    check_device(device, findings);
  }
  for (const std::string& fabric : fabrics) {
    check_fabric(fabric, observed.time, findings);
  }
  check_counters(observed, findings);
  return findings;
}

void print(const Findings& findings) {
  for (const Finding& finding : findings) {
    fmt::print("{:8} {:10} {}\n", name_of(finding.grade), finding.subject, finding.sentence);
  }
}

void print_json(const Findings& findings) {
  auto json = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    json.push_back({{"grade", name_of(finding.grade)},
                    {"subject", finding.subject},
                    {"sentence", finding.sentence}});
  }
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

int run_doctor(const DeviceOptions& options, bool is_json) {
  const auto findings = examine(options);
  if (!findings) {
    fmt::print(stderr, "verbena: {}\n", findings.error());
    return exit_usage;
  }
  is_json ? print_json(*findings) : print(*findings);
  const bool is_well = std::ranges::none_of(
      *findings, [](const Finding& finding) { return finding.grade == Finding::Grade::problem; });
  return is_well ? exit_ok : exit_failed;
}

}  // namespace

void add_doctor(CLI::App& app, int& status) {
  auto options = std::make_shared<DeviceOptions>();
  auto is_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "doctor", "Look for what is wrong: devices, network, who listens, what failed and why");
  command->add_flag("--json", *is_json, "As a JSON array");
  options->add_to(*command, ports::env::capture);
  command->footer(
      "Tells of the fabric that the options name, so give it those of `verbena run`. What failed\n"
      "lately is remembered as long as any program of the fabric runs. Ends with 1 if there is a\n"
      "problem.");
  command->callback([=, &status] { status = run_doctor(*options, *is_json); });
}

}  // namespace verbena::cli
