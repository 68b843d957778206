// `verbena inject`: makes a failure happen in a running program's NIC, so that its error paths can
// be tried.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/near_miss.h"
#include "cli/commands.h"
#include "cli/device_options.h"
#include "cli/exit_status.h"
#include "cli/observed.h"
#include "nic_model/types.h"
#include "ports/fabric.h"

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

/// Returns how many devices were reached. The error is a sentence.
Result<int, std::string> inject_into(const std::string& fabric, const InjectOptions& options,
                                     const ports::Injection& injection) {
  const auto members = ports::list_members(fabric);
  if (!members) {
    return std::unexpected(members.error());
  }
  int reached = 0;
  for (const ports::FabricMember& member : *members) {
    if (!is_meant(options, member)) {
      continue;
    }
    if (const auto sent = ports::send_injection(fabric, member.slot, injection); !sent) {
      return std::unexpected(sent.error());
    }
    fmt::print("{} at {} of process {}\n", options.event, member.device_name, member.pid);
    ++reached;
  }
  return reached;
}

int inject(const InjectOptions& options) {
  const auto event = event_of(options.event);
  if (!event) {
    return refuse_event(options.event);
  }
  if (options.qpn && *options.qpn > qpn_mask) {
    return fail(exit_usage, "a queue pair's number has 24 bits");
  }
  const auto devices = options.fabrics.load_devices();
  if (!devices) {
    return fail(exit_usage, devices.error());
  }
  const ports::Injection injection{
      .event = *event, .qpn = options.qpn ? std::optional(Qpn{*options.qpn}) : std::nullopt};
  int reached = 0;
  for (const std::string& fabric : fabrics_of(*devices)) {
    const auto there = inject_into(fabric, options, injection);
    if (!there) {
      return fail(exit_failed, there.error());
    }
    reached += *there;
  }
  return reached > 0 ? exit_ok : fail(exit_failed, "no such process has a device open");
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
