// `verbena devices`: what programs would see with this configuration, and who is in the fabric.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/device_options.h"
#include "cli/exit_status.h"
#include "nic_model/types.h"
#include "ports/device_config.h"
#include "ports/fabric.h"
#include "ports/sysfs_files.h"
#include "proto/roce/gid.h"

namespace verbena::cli {
namespace {

bool is_iwarp(const ports::DeviceConfig& config) {
  return config.technology == nic::Technology::iwarp;
}

std::string_view type_text(const ports::DeviceConfig& config, nic::GidEntry::Type type) {
  if (is_iwarp(config)) {
    return "Ethernet address";
  }
  return type == nic::GidEntry::Type::roce_v1 ? "RoCE v1" : "RoCE v2";
}

std::vector<std::string> addresses_of(const ports::DeviceConfig& config) {
  std::vector<std::string> texts;
  std::ranges::transform(config.addresses, std::back_inserter(texts), roce::to_address_text);
  return texts;
}

/// Of an iWARP device, in one line.
std::string mpa_text(const iwarp::MpaSettings& mpa) {
  std::string_view crc = "CRC";
  if (mpa.crc != iwarp::CrcPolicy::ask) {
    crc = mpa.crc == iwarp::CrcPolicy::accept ? "CRC if the peer asks" : "no CRC";
  }
  return fmt::format("iWARP over TCP, MPA revision {}, {}{}{}{}", mpa.revision, crc,
                     mpa.markers ? ", markers" : "", mpa.peer_to_peer ? ", peer-to-peer" : "",
                     mpa.legacy_depths ? ", legacy depths" : "");
}

/// A device with what is known of its fabric.
struct ListedDevice {
  ports::DeviceConfig config;
  nic::NicConfig nic;
  Result<std::vector<ports::FabricMember>, std::string> members;
};

void print_members(const ListedDevice& device) {
  if (!device.members) {
    fmt::print("  {:10} can't be read: {}\n", "", device.members.error());
    return;
  }
  for (const ports::FabricMember& member : *device.members) {
    fmt::print("  {:10} process {} with {}\n", "", member.pid, member.device_name);
  }
}

void print_device(const ListedDevice& device) {
  const ports::DeviceConfig& config = device.config;
  fmt::print("{}\n", config.name);
  fmt::print("  {:10} {}\n", "GUID", ports::guid_text(config.guid));
  fmt::print("  {:10} {}\n", "MTU", nic::mtu_bytes(config.mtu));
  fmt::print("  {:10} {}\n", "profile", config.profile.name);
  if (is_iwarp(config)) {
    fmt::print("  {:10} {}\n", "transport", mpa_text(config.mpa));
    fmt::print("  {:10} {}\n", "addresses", fmt::join(addresses_of(config), ", "));
  }
  for (std::size_t index = 0; index < device.nic.gids.size(); ++index) {
    const nic::GidEntry& entry = device.nic.gids[index];
    fmt::print("  {:10} {}  {}\n", fmt::format("GID {}", index), roce::to_text(entry.gid),
               type_text(config, entry.type));
  }
  fmt::print("  {:10} {}\n", "fabric", config.fabric_path);
  print_members(device);
  for (const std::string& note : config.notes) {
    fmt::print("  {:10} {}\n", "note", note);
  }
}

nlohmann::ordered_json to_json(const ListedDevice& device) {
  const ports::DeviceConfig& config = device.config;
  nlohmann::ordered_json json;
  json["name"] = config.name;
  json["guid"] = ports::guid_text(config.guid);
  json["mtu"] = nic::mtu_bytes(config.mtu);
  json["profile"] = config.profile.name;
  json["transport"] = is_iwarp(config) ? "iwarp" : "roce";
  json["addresses"] = addresses_of(config);
  for (std::size_t index = 0; index < device.nic.gids.size(); ++index) {
    const nic::GidEntry& entry = device.nic.gids[index];
    json["gids"].push_back({{"index", index},
                            {"gid", roce::to_long_text(entry.gid)},
                            {"type", type_text(config, entry.type)}});
  }
  json["fabric"] = config.fabric_path;
  if (!config.notes.empty()) {
    json["notes"] = config.notes;
  }
  if (device.members) {
    json["members"] = nlohmann::json::array();
    for (const ports::FabricMember& member : *device.members) {
      json["members"].push_back({{"pid", member.pid}, {"device", member.device_name}});
    }
  } else {
    json["fabric_error"] = device.members.error();
  }
  return json;
}

int list_devices(const DeviceOptions& options, bool is_json) {
  auto configs = options.load_devices();
  if (!configs) {
    fmt::print(stderr, "verbena: {}\n", configs.error());
    return exit_usage;
  }
  auto json = nlohmann::ordered_json::array();
  for (ports::DeviceConfig& config : *configs) {
    const nic::NicConfig nic = ports::nic_config(config);
    const std::string fabric_path = config.fabric_path;
    const ListedDevice device{
        .config = std::move(config), .nic = nic, .members = ports::list_members(fabric_path)};
    if (is_json) {
      json.push_back(to_json(device));
    } else {
      print_device(device);
    }
  }
  if (is_json) {
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return exit_ok;
}

}  // namespace

void add_devices(CLI::App& app, int& status) {
  auto options = std::make_shared<DeviceOptions>();
  auto is_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "devices", "List the devices that programs see, and the processes that use them");
  command->add_flag("--json", *is_json, "As a JSON array");
  options->add_to(*command, ports::env::capture);
  command->callback([=, &status] { status = list_devices(*options, *is_json); });
}

}  // namespace verbena::cli
