#include "ports/device_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "nic_model/gid_order.h"
#include "ports/config_file.h"
#include "ports/device_draft.h"
#include "ports/log.h"
#include "ports/populate.h"
#include "ports/sys.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

constexpr std::array variables = {
    EnvironmentVariable{env::config, "--config", "FILE", "read the devices from this TOML file"},
    EnvironmentVariable{env::device, "--device", "NAME",
                        "name of the device (verbena0), or which one of the file to offer"},
    EnvironmentVariable{env::address, "--address", "A[,A...]",
                        "IP addresses of the device, local to this host (127.0.0.1); of a link, "
                        "its own, with their subnets (10.7.0.1/24)"},
    EnvironmentVariable{env::interface, "--interface", "NAME",
                        "take the IP addresses of this network interface"},
    EnvironmentVariable{env::raw, "--raw", "NAME",
                        "the same, by raw Ethernet instead of UDP: RoCE v1, too (CAP_NET_RAW)"},
    EnvironmentVariable{env::link, "--link", "qemu:PATH|tap:NAME",
                        "be on the wire of a QEMU guest, by a UNIX socket, or of a TAP interface; "
                        "needs --address"},
    EnvironmentVariable{env::mac, "--mac", "MAC",
                        "Ethernet address of a link device (made of its first address)"},
    EnvironmentVariable{env::vlan, "--vlan", "ID",
                        "VLAN of a raw or loopback device: tagged frames, 1 to 4094"},
    EnvironmentVariable{env::mtu, "--mtu", "BYTES",
                        "MTU of the port: 256 to 4096 (the largest that fits the interface)"},
    EnvironmentVariable{env::guid, "--guid", "GUID",
                        "node GUID, 16 hexadecimal digits (derived from machine and name)"},
    EnvironmentVariable{env::transport, "--transport", "NAME",
                        "roce, iwarp (verbena_iw0, over TCP), or both of them (roce)"},
    EnvironmentVariable{env::profile, "--profile", "NAME",
                        "imitate a device: cx5, e810, rxe, siw or minimal (verbena)"},
    EnvironmentVariable{env::ack_timeout_min_ms, "--ack-timeout-min", "MS",
                        "floor of the ACK timer in milliseconds, 0 to 10000 (50)"},
    EnvironmentVariable{env::icrc_sent, "--icrc-sent", "good|bad|zero",
                        "for peers that don't check it, or to see what they do (good)"},
    EnvironmentVariable{
        env::icrc_check, "--icrc-check", "on|count|off",
        "drop frames with a wrong ICRC, or take them and count, or don't look (on)"},
    EnvironmentVariable{env::connect_timeout_s, "--connect-timeout", "SECONDS",
                        "give up a connection (rdma_cm) that nobody answers, 1 to 3600 (103)"},
    EnvironmentVariable{env::mpa_revision, "--mpa-revision", "1|2",
                        "iWARP: revision of MPA, the framing on TCP (2)"},
    EnvironmentVariable{env::mpa_crc, "--mpa-crc", "on|off|refuse",
                        "iWARP: off lets the peer decide, refuse won't have it (on)"},
    EnvironmentVariable{env::mpa_markers, "--mpa-markers", "on|off",
                        "iWARP: ask for markers in what comes (off)"},
    EnvironmentVariable{env::mpa_peer_to_peer, "--mpa-peer-to-peer", "on|off",
                        "iWARP: who accepts a connection may send first (on)"},
    EnvironmentVariable{env::mpa_legacy_depths, "--mpa-legacy-depths", "on|off",
                        "iWARP, revision 1: tell READ depths in the private data (off)"},
    EnvironmentVariable{env::fabric, "--fabric", "NAME|PATH",
                        "the shared memory through which programs reach each other (default)"},
    EnvironmentVariable{env::ring_kib, "--ring", "KIB",
                        "size of the ring to each other program, a power of two (1024)"},
    EnvironmentVariable{env::capture, "--capture", "FILE",
                        "write what the device sends and receives to this pcapng file"},
    EnvironmentVariable{env::loss, "--loss", "CHANCE",
                        "lose frames, sent and received: 1%, 1/50 or 0.01"},
    EnvironmentVariable{env::duplicate, "--dup", "CHANCE", "let frames come twice"},
    EnvironmentVariable{env::reorder, "--reorder", "CHANCE", "let frames be overtaken by the next"},
    EnvironmentVariable{env::corrupt, "--corrupt", "CHANCE", "change a bit of frames"},
    EnvironmentVariable{env::delay, "--delay", "TIME", "let each frame come so much later: 50us"},
    EnvironmentVariable{env::fault, "--fault", "RULE[;RULE...]",
                        "fault rules: \"drop opcode=WRITE_MIDDLE count=1\""},
    EnvironmentVariable{env::faults, "--faults", "FILE", "fault rules of a TOML file"},
    EnvironmentVariable{env::seed, "--seed", "NUMBER", "decides which frames the faults meet (1)"},
    EnvironmentVariable{env::log, "--log", "LEVEL",
                        "say on standard error: off, error, warn, info, debug or trace (warn)"},
};

using Drafts = std::vector<DeviceDraft>;

std::optional<std::string_view> value_of(const Environment& environment, const char* name) {
  const char* value = environment(name);
  if (value == nullptr || *value == '\0') {
    return std::nullopt;
  }
  return value;
}

/// Which devices a setting means something to.
enum class Scope : std::uint8_t { every, roce, iwarp, frames };

bool covers(Scope scope, const DeviceDraft& draft) {
  switch (scope) {
    case Scope::every:
      break;
    case Scope::roce:
      return !draft.is_iwarp();
    case Scope::iwarp:
      return draft.is_iwarp();
    case Scope::frames:
      return draft.makes_frames();
  }
  return true;
}

/// Where no device is covered.
std::string why_not(Scope scope) {
  switch (scope) {
    case Scope::every:
      break;
    case Scope::roce:
      return "is for RoCE devices only: ICRC and ACK timers are RoCE's, an iWARP device has MPA's "
             "CRC and TCP's timers";
    case Scope::iwarp:
      return fmt::format("is for iWARP devices only; ask for one with {}=iwarp", env::transport);
    case Scope::frames:
      return "is for RoCE devices only: faults are of frames, and those of an iWARP device are "
             "made "
             "by the operating system's TCP; use the simulator (verbena sim), or tc-netem(8) on "
             "the interface";
  }
  return "is for none of the devices";
}

/// A variable and the setter behind it.
struct Setting {
  const char* variable;
  SetResult (*set)(DeviceDraft&, std::string_view);
  Scope scope = Scope::every;
};

template <SetResult (DeviceDraft::*set)(std::int64_t)>
SetResult set_number(DeviceDraft& draft, std::string_view text) {
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (stop != text.data() + text.size() || error != std::errc{}) {
    return std::unexpected(fmt::format("\"{}\" is no number", text));
  }
  return (draft.*set)(value);
}

template <SetResult (DeviceDraft::*set)(std::string_view)>
SetResult set_text(DeviceDraft& draft, std::string_view text) {
  return (draft.*set)(text);
}

template <SetResult (DeviceDraft::*set)(bool)>
SetResult set_flag(DeviceDraft& draft, std::string_view text) {
  if (text != "on" && text != "off") {
    return std::unexpected(fmt::format("the value is on or off, not \"{}\"", text));
  }
  return (draft.*set)(text == "on");
}

/// Two devices: one of each transport.
constexpr std::string_view both_transports = "both";

SetResult set_transport(DeviceDraft& draft, std::string_view text) {
  if (text == both_transports) {
    return {};  // See drafts_of().
  }
  return text == "roce" || text == "iwarp"
             ? draft.set_transport(text)
             : std::unexpected(fmt::format("\"{}\" is none of roce, iwarp and both", text));
}

template <faults::ActionKind action>
SetResult add_rate(DeviceDraft& draft, std::string_view chance) {
  return draft.add_fault_rate(action, chance);
}

SetResult set_address_list(DeviceDraft& draft, std::string_view list) {
  std::vector<std::string> items(1);
  for (const char c : list) {
    if (c == ',') {
      items.emplace_back();
    } else {
      items.back() += c;
    }
  }
  return draft.set_addresses(items);
}

/// What belongs to one device only.
constexpr std::array identity_settings = {
    // First, for it says whose the addresses are.
    Setting{env::link, &set_text<&DeviceDraft::set_link>},
    Setting{env::mac, &set_text<&DeviceDraft::set_mac>},
    Setting{env::address, &set_address_list},
    Setting{env::interface, &set_text<&DeviceDraft::set_interface>},
    Setting{env::raw, &set_text<&DeviceDraft::set_raw>},
    Setting{env::vlan, &set_number<&DeviceDraft::set_vlan>},
    Setting{env::guid, &set_text<&DeviceDraft::set_guid>},
};

/// What can be said of all devices at once.
constexpr std::array common_settings = {
    // Before what only one of the transports has.
    Setting{env::transport, &set_transport},
    Setting{env::mpa_revision, &set_number<&DeviceDraft::set_mpa_revision>, Scope::iwarp},
    Setting{env::mpa_crc, &set_text<&DeviceDraft::set_mpa_crc>, Scope::iwarp},
    Setting{env::mpa_markers, &set_flag<&DeviceDraft::set_mpa_markers>, Scope::iwarp},
    Setting{env::mpa_peer_to_peer, &set_flag<&DeviceDraft::set_mpa_peer_to_peer>, Scope::iwarp},
    Setting{env::mpa_legacy_depths, &set_flag<&DeviceDraft::set_mpa_legacy_depths>, Scope::iwarp},
    Setting{env::profile, &set_text<&DeviceDraft::set_profile>},
    Setting{env::mtu, &set_number<&DeviceDraft::set_mtu>},
    Setting{env::ack_timeout_min_ms, &set_number<&DeviceDraft::set_ack_timeout_min_ms>,
            Scope::roce},
    Setting{env::icrc_sent, &set_text<&DeviceDraft::set_icrc_sent>, Scope::roce},
    Setting{env::icrc_check, &set_text<&DeviceDraft::set_icrc_check>, Scope::roce},
    Setting{env::connect_timeout_s, &set_number<&DeviceDraft::set_connect_timeout_s>},
    Setting{env::fabric, &set_text<&DeviceDraft::set_fabric>},
    Setting{env::ring_kib, &set_number<&DeviceDraft::set_ring_kib>},
    Setting{env::capture, &set_text<&DeviceDraft::set_capture>},
    // In this order the rules are asked: what is special first.
    Setting{env::fault, &set_text<&DeviceDraft::add_faults>, Scope::frames},
    Setting{env::faults, &set_text<&DeviceDraft::add_fault_file>, Scope::frames},
    Setting{env::loss, &add_rate<faults::ActionKind::drop>, Scope::frames},
    Setting{env::duplicate, &add_rate<faults::ActionKind::duplicate>, Scope::frames},
    Setting{env::reorder, &add_rate<faults::ActionKind::reorder>, Scope::frames},
    Setting{env::corrupt, &add_rate<faults::ActionKind::corrupt>, Scope::frames},
    Setting{env::delay, &set_text<&DeviceDraft::add_delay>, Scope::frames},
    Setting{env::seed, &set_number<&DeviceDraft::set_fault_seed>},
};

SetResult apply(const Environment& environment, std::span<const Setting> settings,
                DeviceDraft& draft) {
  for (const Setting& setting : settings) {
    const auto value = value_of(environment, setting.variable);
    if (!value || !covers(setting.scope, draft)) {
      continue;
    }
    if (const SetResult result = setting.set(draft, *value); !result) {
      return std::unexpected(fmt::format("{}: {}", setting.variable, result.error()));
    }
  }
  return {};
}

/// VERBENA_DEVICE: chooses among the devices of a file or of both transports, names the default
/// one.
SetResult apply_device(std::string_view name, Drafts& drafts, bool chooses) {
  if (!chooses) {
    return drafts.front().set_name(name);
  }
  const auto chosen = std::ranges::find(drafts, name, &DeviceDraft::name);
  if (chosen == drafts.end()) {
    std::vector<std::string> names;
    std::ranges::transform(drafts, std::back_inserter(names), &DeviceDraft::name);
    return std::unexpected(
        fmt::format("there is no device \"{}\"; there are {}", name, fmt::join(names, ", ")));
  }
  DeviceDraft only = std::move(*chosen);
  drafts.clear();
  drafts.push_back(std::move(only));
  return {};
}

/// Why the variables contradict each other or the number of devices; empty if they don't.
std::string contradiction(const Environment& environment, std::size_t devices, bool from_file) {
  for (const Setting& setting : identity_settings) {
    // Two devices that differ in their transport may be at the same place.
    const bool is_place = setting.variable == env::address || setting.variable == env::interface;
    if (devices > 1 && value_of(environment, setting.variable) && (from_file || !is_place)) {
      return fmt::format("{} belongs to one device, and there are {}; choose one with {}",
                         setting.variable, devices, env::device);
    }
  }
  for (const char* own : {env::address, env::link}) {
    const char* earlier = nullptr;
    for (const char* place : {own, env::interface, env::raw}) {
      if (!value_of(environment, place)) {
        continue;
      }
      if (earlier != nullptr) {
        return fmt::format("{} and {} contradict each other; set one", earlier, place);
      }
      earlier = place;
    }
  }
  return {};
}

/// A setting is for some of the devices. Those that it isn't for are told where they could think
/// so; where there is nobody else, it is refused.
SetResult check_scopes(const Environment& environment, Drafts& drafts) {
  for (const Setting& setting : common_settings) {
    const auto is_covered = [&](const DeviceDraft& draft) { return covers(setting.scope, draft); };
    if (!value_of(environment, setting.variable) || std::ranges::all_of(drafts, is_covered)) {
      continue;
    }
    if (std::ranges::none_of(drafts, is_covered)) {
      return std::unexpected(fmt::format("{} {}", setting.variable, why_not(setting.scope)));
    }
    for (DeviceDraft& draft : drafts) {
      if (setting.scope == Scope::frames && !is_covered(draft)) {
        draft.add_note(
            fmt::format("{} isn't for {}, whose frames are made by the operating "
                        "system's TCP; tc-netem(8) on its interface is",
                        setting.variable, draft.name()));
      }
    }
  }
  return {};
}

SetResult apply_environment(const Environment& environment, Drafts& drafts, bool from_file) {
  if (const auto name = value_of(environment, env::device)) {
    const bool chooses = from_file || value_of(environment, env::transport) == both_transports;
    if (const SetResult result = apply_device(*name, drafts, chooses); !result) {
      return std::unexpected(fmt::format("{}: {}", env::device, result.error()));
    }
  }
  if (std::string reason = contradiction(environment, drafts.size(), from_file); !reason.empty()) {
    return std::unexpected(std::move(reason));
  }
  for (DeviceDraft& draft : drafts) {
    if (SetResult result = apply(environment, identity_settings, draft); !result) {
      return result;
    }
    if (SetResult result = apply(environment, common_settings, draft); !result) {
      return result;
    }
  }
  return check_scopes(environment, drafts);
}

Result<Drafts, std::string> drafts_of(const Environment& environment) {
  const auto path = value_of(environment, env::config);
  const bool wants_both = value_of(environment, env::transport) == both_transports;
  if (!path) {
    Drafts drafts(wants_both ? 2 : 1);
    if (wants_both) {
      static_cast<void>(drafts.back().set_transport("iwarp"));
    }
    return drafts;
  }
  if (wants_both) {
    return std::unexpected(fmt::format("{} is \"{}\", but the devices are those of a file: {}",
                                       env::transport, both_transports, *path));
  }
  const std::string file_name(*path);
  const auto content = read_config_file(file_name);
  if (!content && content.error() == EFBIG) {
    return std::unexpected(fmt::format("the configuration {} has more than {} KiB", file_name,
                                       config_file_bytes_max / 1024));
  }
  if (!content) {
    return std::unexpected(fmt::format("can't read the configuration {} ({}): {}", file_name,
                                       env::config, sys::error_text(content.error())));
  }
  return parse_config_file(*content, file_name);
}

Result<std::vector<DeviceConfig>, std::string> finish(Drafts drafts) {
  std::vector<DeviceConfig> devices;
  for (DeviceDraft& draft : drafts) {
    auto device = std::move(draft).finish();
    if (!device) {
      return std::unexpected(std::move(device.error()));
    }
    devices.push_back(std::move(*device));
  }
  return devices;
}

}  // namespace

std::span<const EnvironmentVariable> environment_variables() { return variables; }

Environment process_environment() {
  return [](const char* name) -> const char* { return secure_getenv(name); };
}

Result<std::vector<DeviceConfig>, std::string> load_devices(const Environment& environment) {
  if (const auto level = value_of(environment, env::log); level && !log_level_of(*level)) {
    return std::unexpected(fmt::format("{} is \"{}\"; it may be {}", env::log, *level,
                                       fmt::join(log_level_names, ", ")));
  }
  auto drafts = drafts_of(environment);
  if (!drafts) {
    return std::unexpected(std::move(drafts.error()));
  }
  const bool from_file = value_of(environment, env::config).has_value();
  if (SetResult result = apply_environment(environment, *drafts, from_file); !result) {
    return std::unexpected(std::move(result.error()));
  }
  return finish(std::move(*drafts));
}

Result<std::vector<DeviceConfig>, std::string> parse_devices(std::string_view toml,
                                                             std::string_view file_name) {
  auto drafts = parse_config_file(toml, file_name);
  if (!drafts) {
    return std::unexpected(std::move(drafts.error()));
  }
  return finish(std::move(*drafts));
}

std::optional<Gid> DeviceConfig::address_toward(const Gid& peer) const {
  const auto covering = std::ranges::find_if(link_addresses, [&](const inet::LinkAddress& own) {
    return own.covers(roce::ipv6_from_gid(peer));
  });
  return covering != link_addresses.end() ? std::optional(roce::gid_from_ipv6(covering->address))
                                          : std::nullopt;
}

bool DeviceConfig::faces_network() const {
  return !std::ranges::all_of(addresses, roce::is_loopback);
}

namespace {

/// Of an iWARP device: its Ethernet address and then zeros, as Linux' drivers have it.
std::vector<nic::GidEntry> rnic_gid_table(const DeviceConfig& config) {
  const inet::MacAddress mac =
      config.makes_frames() ? config.mac : nic::mac_of(config.addresses.front());
  Gid gid;
  std::ranges::copy(mac.bytes, gid.bytes.begin());
  return {{.gid = gid, .type = nic::GidEntry::Type::roce_v1}};
}

/// The addresses, and where RoCE v1 works the link-local one that programs of RoCE v1 know.
std::vector<nic::GidEntry> gid_table(const DeviceConfig& config) {
  using Type = nic::GidEntry::Type;
  std::vector<Gid> gids = config.addresses;
  const bool everything_works = config.makes_frames() || !config.faces_network();
  const bool has_v1 = everything_works && 2 * (gids.size() + 1) <= gids_max;
  const auto mac = config.makes_frames() ? config.mac : nic::mac_of(gids.front());
  const Gid link_local = roce::gid_link_local(mac);
  if (has_v1 && std::ranges::find(gids, link_local) == gids.end()) {
    gids.push_back(link_local);
  }
  std::vector<nic::GidEntry> table;
  const auto add_all = [&](Type type) {
    for (const Gid& gid : gids) {
      table.push_back({.gid = gid, .type = type, .vlan = config.vlan});
    }
  };
  add_all(Type::roce_v2);
  if (has_v1) {
    add_all(Type::roce_v1);
  }
  return table;
}

}  // namespace

nic::NicConfig nic_config(const DeviceConfig& config) {
  nic::NicConfig result;
  result.technology = config.technology;
  result.node_guid = config.guid;
  result.mtu_max = config.mtu;
  result.gids = config.technology == nic::Technology::iwarp
                    ? rnic_gid_table(config)
                    : nic::arranged(config.profile, gid_table(config));
  result.ack_timeout_min = config.ack_timeout_min;
  result.pager = &process_pager();
  return result;
}

}  // namespace verbena::ports
