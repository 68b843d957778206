// `verbena inject`: makes a failure happen in a running program's NIC, so that its error paths can
// be tried.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/near_miss.h"
#include "cli/commands.h"
#include "cli/device_options.h"
#include "cli/exit_status.h"
#include "cli/observed.h"
#include "nic_model/types.h"
#include "ports/fabric.h"
#include "ports/stats_reader.h"

namespace verbena::cli {
namespace {

struct InjectOptions {
  DeviceOptions fabrics;
  std::string event;
  std::optional<std::int32_t> pid;
  std::optional<std::string> name;
  std::optional<std::uint32_t> qpn;
};

/// "port_err" for PORT_ERR.
std::string word_of(nic::AsyncEventType type) {
  std::string word = nic::name_of(type);
  std::ranges::transform(word, word.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return word;
}

std::vector<std::string> event_words() {
  std::vector<std::string> words;
  std::ranges::transform(nic::async_event_types, std::back_inserter(words), word_of);
  return words;
}

std::optional<nic::AsyncEventType> event_of(const std::string& word) {
  const auto* const found = std::ranges::find_if(
      nic::async_event_types, [&](nic::AsyncEventType type) { return word_of(type) == word; });
  if (found == nic::async_event_types.end()) {
    return std::nullopt;
  }
  return *found;
}

/// The name of a program as it was called, without its folder. The kernel's own (comm) ends after
/// 15 letters.
std::string program_name(std::int32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
  std::string called;
  std::getline(file, called, '\0');
  return std::filesystem::path(called).filename();
}

bool is_meant(const InjectOptions& options, const ports::FabricMember& member) {
  return (!options.pid || member.pid == *options.pid) &&
         (!options.name || program_name(member.pid) == *options.name);
}

int fail(int status, const std::string& sentence) {
  fmt::print(stderr, "verbena: {}\n", sentence);
  return status;
}

int refuse_event(const std::string& word) {
  const std::vector<std::string> words = event_words();
  const std::vector<std::string_view> known(words.begin(), words.end());
  return fail(exit_usage, fmt::format("No event is named '{}'.{} Events are {}.", word,
                                      did_you_mean(word, known), fmt::join(words, ", ")));
}

/// The others are of the port, the device, a completion queue or a shared receive queue.
bool is_of_queue_pairs(nic::AsyncEventType type) {
  using enum nic::AsyncEventType;
  constexpr std::array others = {cq_err,   device_fatal,      port_active,
                                 port_err, srq_limit_reached, gid_change};
  return std::ranges::find(others, type) == others.end();
}

/// The program's queue pairs, as the device told last; nullopt if it doesn't tell of all, or can't
/// be understood.
std::optional<std::vector<Qpn>> queue_pairs_of(const std::string& fabric,
                                               const ports::FabricMember& member) {
  const auto told = ports::read_statistics(fabric);
  if (!told) {
    return std::nullopt;
  }
  const auto device = std::ranges::find(told->devices, member.life, &ports::DeviceStatistics::life);
  if (device == told->devices.end() || device->objects.qps != device->qps.size()) {
    return std::nullopt;
  }
  std::vector<Qpn> found;
  for (const ports::QpStatistics& qp : device->qps) {
    // QPN 1 belongs to the connection manager.
    if (qp.type != nic::QpType::gsi) {
      found.push_back(qp.qpn);
    }
  }
  return found;
}

/// What came of an attempt.
struct Outcome {
  /// Devices to which it was sent.
  int reached = 0;
  /// A sentence for each process that is meant and has no such queue pair.
  std::vector<std::string> spared;
};

std::string spared_text(const ports::FabricMember& member, const InjectOptions& options,
                        const std::vector<Qpn>& has) {
  if (!options.qpn || has.empty()) {
    return fmt::format("process {} has no queue pair", member.pid);
  }
  std::vector<std::string> numbers;
  std::ranges::transform(has, std::back_inserter(numbers),
                         [](Qpn qpn) { return fmt::format("0x{:06x}", to_value(qpn)); });
  return fmt::format("process {} has no queue pair 0x{:06x}, but {}", member.pid, *options.qpn,
                     fmt::join(numbers, ", "));
}

/// The error is a sentence.
Result<void, std::string> inject_into(const std::string& fabric, const InjectOptions& options,
                                      const ports::Injection& injection, Outcome& outcome) {
  const auto members = ports::list_members(fabric);
  if (!members) {
    return std::unexpected(members.error());
  }
  for (const ports::FabricMember& member : *members) {
    if (!is_meant(options, member)) {
      continue;
    }
    const auto has =
        is_of_queue_pairs(injection.event) ? queue_pairs_of(fabric, member) : std::nullopt;
    if (has &&
        (injection.qpn ? std::ranges::find(*has, *injection.qpn) == has->end() : has->empty())) {
      outcome.spared.push_back(spared_text(member, options, *has));
      continue;
    }
    if (const auto sent = ports::send_injection(fabric, member.slot, injection); !sent) {
      return std::unexpected(sent.error());
    }
    fmt::print("{} at {} of process {}\n", options.event, member.device_name, member.pid);
    ++outcome.reached;
  }
  return {};
}

Result<Outcome, std::string> inject_once(const std::vector<ports::DeviceConfig>& devices,
                                         const InjectOptions& options,
                                         const ports::Injection& injection) {
  Outcome outcome;
  for (const std::string& fabric : fabrics_of(devices)) {
    if (const auto done = inject_into(fabric, options, injection, outcome); !done) {
      return std::unexpected(done.error());
    }
  }
  return outcome;
}

/// What a device tells is a little old (ports/stats_file.h): a queue pair that was made just now is
/// waited for.
Result<Outcome, std::string> inject_patiently(const std::vector<ports::DeviceConfig>& devices,
                                              const InjectOptions& options,
                                              const ports::Injection& injection) {
  constexpr int attempts_max = 20;
  constexpr std::chrono::milliseconds pause(50);
  auto outcome = inject_once(devices, options, injection);
  for (int attempt = 1;
       attempt < attempts_max && outcome && outcome->reached == 0 && !outcome->spared.empty();
       ++attempt) {
    std::this_thread::sleep_for(pause);
    outcome = inject_once(devices, options, injection);
  }
  return outcome;
}

int inject(const InjectOptions& options) {
  const auto event = event_of(options.event);
  if (!event) {
    return refuse_event(options.event);
  }
  if (options.qpn && *options.qpn > qpn_mask) {
    return fail(exit_usage, "a queue pair's number has 24 bits");
  }
  if (options.qpn && !is_of_queue_pairs(*event)) {
    return fail(exit_usage,
                fmt::format("{} doesn't happen to a queue pair: leave --qpn out", options.event));
  }
  const auto devices = options.fabrics.load_devices();
  if (!devices) {
    return fail(exit_usage, devices.error());
  }
  const ports::Injection injection{
      .event = *event, .qpn = options.qpn ? std::optional(Qpn{*options.qpn}) : std::nullopt};
  const auto outcome = inject_patiently(*devices, options, injection);
  if (!outcome) {
    return fail(exit_failed, outcome.error());
  }
  if (outcome->reached > 0) {
    return exit_ok;
  }
  return fail(exit_failed, outcome->spared.empty()
                               ? "no such process has a device open"
                               : fmt::format("{}", fmt::join(outcome->spared, "; ")));
}

}  // namespace

void add_inject(CLI::App& app, int& status) {
  auto options = std::make_shared<InjectOptions>();
  CLI::App* command =
      app.add_subcommand("inject", "Make a failure happen in the NIC of a running program");
  command->add_option("EVENT", options->event, "What shall happen")->required();
  command->add_option("--pid", options->pid, "In this process")->type_name("PID");
  command->add_option("--name", options->name, "In processes of this program")
      ->type_name("PROGRAM");
  command->add_option("--qpn", options->qpn, "At this queue pair only")->type_name("QPN");
  add_fabric_options(*command, options->fabrics);
  command->footer(fmt::format(
      "Events: {}.\nWithout --pid and --name it happens in all processes that have a device open.",
      fmt::join(event_words(), ", ")));
  command->callback([options, &status] { status = inject(*options); });
}

}  // namespace verbena::cli
