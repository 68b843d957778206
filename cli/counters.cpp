// `verbena counters`: what each open device and each queue pair has counted so far.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/observed.h"
#include "proto/roce/gid.h"

namespace verbena::cli {
namespace {

struct Wishes {
  DeviceOptions fabrics;
  bool json = false;
  bool all = false;
  /// 0: every process.
  std::int32_t pid = 0;
};

std::string_view name_of(nic::QpType type) {
  switch (type) {
    case nic::QpType::rc:
      return "RC";
    case nic::QpType::uc:
      return "UC";
    case nic::QpType::ud:
      return "UD";
    case nic::QpType::gsi:
      return "GSI";
    case nic::QpType::xrc_initiator:
      return "XRC initiator";
    case nic::QpType::xrc_target:
      return "XRC target";
  }
  return "?";
}

void print_values(std::string_view indent, std::span<const std::string_view> names,
                  std::span<const std::uint64_t> values, bool all) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (all || values[i] != 0) {
      fmt::print("{}{:28} {:>16}\n", indent, names[i], values[i]);
    }
  }
}

void print_device(const ports::DeviceStatistics& device, bool all) {
  const auto& objects = device.objects;
  fmt::print("process {}  {}  {}\n", device.pid, device.program, device.device);
  fmt::print("  {} queue pairs, {} completion queues, {} memory regions, {} protection domains\n",
             objects.qps, objects.cqs, objects.mrs, objects.pds);
  print_values("  ", counter_names, device.counters, all);
  print_values("  ", ports::port_statistic_names, device.ways, all);
  for (const ports::QpStatistics& qp : device.qps) {
    fmt::print("  QP 0x{:06x}  {}  {}  to {}\n", to_value(qp.qpn), name_of(qp.type),
               nic::name_of(qp.state), peer_text(qp));
    print_values("    ", counter_names, qp.counters, all);
  }
  if (device.qps.size() < objects.qps) {
    fmt::print("  {} more queue pairs are not listed\n", objects.qps - device.qps.size());
  }
}

nlohmann::ordered_json to_json(std::span<const std::string_view> names,
                               std::span<const std::uint64_t> values) {
  nlohmann::ordered_json json;
  for (std::size_t i = 0; i < names.size(); ++i) {
    json[std::string(names[i])] = values[i];
  }
  return json;
}

nlohmann::ordered_json to_json(const ports::QpStatistics& qp) {
  nlohmann::ordered_json json;
  json["qpn"] = to_value(qp.qpn);
  json["type"] = name_of(qp.type);
  json["state"] = nic::name_of(qp.state);
  if (qp.peer != Gid{}) {
    json["peer"] = {{"gid", roce::to_long_text(qp.peer)}, {"qpn", to_value(qp.peer_qpn)}};
  }
  json["counters"] = to_json(counter_names, qp.counters);
  return json;
}

nlohmann::ordered_json to_json(const ports::DeviceStatistics& device) {
  nlohmann::ordered_json json;
  json["pid"] = device.pid;
  json["program"] = device.program;
  json["device"] = device.device;
  json["monotonic_ns"] = device.published.time_since_epoch().count();
  json["objects"] = {{"qps", device.objects.qps},
                     {"cqs", device.objects.cqs},
                     {"mrs", device.objects.mrs},
                     {"pds", device.objects.pds}};
  json["counters"] = to_json(counter_names, device.counters);
  json["port"] = to_json(ports::port_statistic_names, device.ways);
  json["qps"] = nlohmann::json::array();
  for (const ports::QpStatistics& qp : device.qps) {
    json["qps"].push_back(to_json(qp));
  }
  return json;
}

int show_counters(const Wishes& wishes) {
  const auto observed = observe(wishes.fabrics);
  if (!observed) {
    fmt::print(stderr, "verbena: {}\n", observed.error());
    return exit_usage;
  }
  auto json = nlohmann::ordered_json::array();
  bool found = false;
  for (const ports::DeviceStatistics& device : observed->devices) {
    if (wishes.pid != 0 && wishes.pid != device.pid) {
      continue;
    }
    if (wishes.json) {
      json.push_back(to_json(device));
    } else {
      fmt::print("{}", found ? "\n" : "");
      print_device(device, wishes.all);
    }
    found = true;
  }
  if (wishes.json) {
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  for (const std::string& failure : observed->failures) {
    fmt::print(stderr, "verbena: {}\n", failure);
  }
  if (wishes.pid != 0 && !found) {
    fmt::print(stderr, "verbena: process {} has no device open in this fabric\n", wishes.pid);
    return exit_failed;
  }
  return observed->failures.empty() ? exit_ok : exit_failed;
}

}  // namespace

void add_counters(CLI::App& app, int& status) {
  auto wishes = std::make_shared<Wishes>();
  CLI::App* command =
      app.add_subcommand("counters", "Show what the devices that programs have open have counted");
  command->add_flag("--json", wishes->json, "As a JSON array, with the counters that are zero");
  command->add_flag("--all", wishes->all, "Show counters that are zero, too");
  command->add_option("--pid", wishes->pid, "Only this process")->type_name("PID");
  add_fabric_options(*command, wishes->fabrics);
  command->footer(
      "Names are those of the kernel's hw_counters; docs/observability.md explains them. Reading\n"
      "disturbs nobody: a device tells at most ten times a second, and nothing when it is idle.");
  command->callback([wishes, &status] { status = show_counters(*wishes); });
}

}  // namespace verbena::cli
