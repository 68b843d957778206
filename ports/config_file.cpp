#include "ports/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <optional>

#include "base/toml.h"

namespace verbena::ports {

namespace {

std::string at(std::string_view file_name, const toml::source_position& position,
               std::string_view reason) {
  return fmt::format("{}:{}:{}: {}", file_name, position.line, position.column, reason);
}

template <class T>
Result<T, std::string> value_as(const toml::node& node, std::string_view wanted) {
  if (const auto value = node.value_exact<T>()) {
    return *value;
  }
  return std::unexpected(fmt::format("this must be {}", wanted));
}

Result<std::vector<std::string>, std::string> strings_of(const toml::node& node) {
  const std::string wanted = "this must be an array of strings";
  const toml::array* array = node.as_array();
  if (array == nullptr) {
    return std::unexpected(wanted);
  }
  std::vector<std::string> strings;
  for (const toml::node& item : *array) {
    const auto value = item.value_exact<std::string>();
    if (!value) {
      return std::unexpected(wanted);
    }
    strings.push_back(*value);
  }
  return strings;
}

template <SetResult (DeviceDraft::*set)(std::string_view)>
SetResult set_text(DeviceDraft& draft, const toml::node& node) {
  const auto value = value_as<std::string>(node, "a string");
  return value ? (draft.*set)(*value) : std::unexpected(value.error());
}

template <SetResult (DeviceDraft::*set)(std::int64_t)>
SetResult set_number(DeviceDraft& draft, const toml::node& node) {
  const auto value = value_as<std::int64_t>(node, "a whole number");
  return value ? (draft.*set)(*value) : std::unexpected(value.error());
}

template <SetResult (DeviceDraft::*set)(bool)>
SetResult set_flag(DeviceDraft& draft, const toml::node& node) {
  const auto value = value_as<bool>(node, "true or false");
  return value ? (draft.*set)(*value) : std::unexpected(value.error());
}

SetResult set_addresses(DeviceDraft& draft, const toml::node& node) {
  const auto addresses = strings_of(node);
  return addresses ? draft.set_addresses(*addresses) : std::unexpected(addresses.error());
}

struct Key {
  std::string_view name;
  SetResult (*set)(DeviceDraft&, const toml::node&);
};

constexpr std::array keys = {
    Key{"name", &set_text<&DeviceDraft::set_name>},
    Key{"addresses", &set_addresses},
    Key{"interface", &set_text<&DeviceDraft::set_interface>},
    Key{"raw", &set_text<&DeviceDraft::set_raw>},
    Key{"link", &set_text<&DeviceDraft::set_link>},
    Key{"mac", &set_text<&DeviceDraft::set_mac>},
    Key{"vlan", &set_number<&DeviceDraft::set_vlan>},
    Key{"mtu", &set_number<&DeviceDraft::set_mtu>},
    Key{"guid", &set_text<&DeviceDraft::set_guid>},
    Key{"transport", &set_text<&DeviceDraft::set_transport>},
    Key{"mpa_revision", &set_number<&DeviceDraft::set_mpa_revision>},
    Key{"mpa_crc", &set_text<&DeviceDraft::set_mpa_crc>},
    Key{"mpa_markers", &set_flag<&DeviceDraft::set_mpa_markers>},
    Key{"mpa_peer_to_peer", &set_flag<&DeviceDraft::set_mpa_peer_to_peer>},
    Key{"mpa_legacy_depths", &set_flag<&DeviceDraft::set_mpa_legacy_depths>},
    Key{"profile", &set_text<&DeviceDraft::set_profile>},
    Key{"ack_timeout_min_ms", &set_number<&DeviceDraft::set_ack_timeout_min_ms>},
    Key{"icrc_sent", &set_text<&DeviceDraft::set_icrc_sent>},
    Key{"icrc_check", &set_text<&DeviceDraft::set_icrc_check>},
    Key{"connect_timeout_s", &set_number<&DeviceDraft::set_connect_timeout_s>},
    Key{"fabric", &set_text<&DeviceDraft::set_fabric>},
    Key{"ring_kib", &set_number<&DeviceDraft::set_ring_kib>},
};

class Reader {
 public:
  explicit Reader(std::string_view file_name) : file_name_(file_name) {}

  Result<std::vector<DeviceDraft>, std::string> read(const toml::table& root) const {
    for (const auto& [key, node] : root) {
      if (key.str() != "device") {
        return refuse(
            key.source().begin,
            fmt::format("unknown key \"{}\"; devices are in [[device]] tables", key.str()));
      }
    }
    const toml::node* node = root.get("device");
    const toml::array* tables = node == nullptr ? nullptr : node->as_array();
    if (tables == nullptr || tables->empty() || tables->size() > devices_max) {
      return refuse(node == nullptr ? toml::source_position{1, 1} : node->source().begin,
                    fmt::format("a configuration has 1 to {} [[device]] tables", devices_max));
    }
    std::vector<DeviceDraft> drafts;
    for (const toml::node& item : *tables) {
      if (!item.is_table()) {
        return refuse(item.source().begin, "a device must be a [[device]] table");
      }
      auto draft = read_device(*item.as_table());
      if (!draft) {
        return std::unexpected(std::move(draft.error()));
      }
      if (std::ranges::find(drafts, draft->name(), &DeviceDraft::name) != drafts.end()) {
        return refuse(item.source().begin,
                      fmt::format("there is a device \"{}\" already", draft->name()));
      }
      drafts.push_back(std::move(*draft));
    }
    return drafts;
  }

 private:
  std::unexpected<std::string> refuse(const toml::source_position& position,
                                      std::string_view reason) const {
    return std::unexpected(at(file_name_, position, reason));
  }

  Result<DeviceDraft, std::string> read_device(const toml::table& table) const {
    DeviceDraft draft;
    for (const std::string_view own : {"addresses", "link"}) {
      if (const SetResult result = check_places(table, own); !result) {
        return std::unexpected(result.error());
      }
    }
    // First, for they say how high the limits may be, and whose the addresses are.
    for (const std::string_view name : {"profile", "link"}) {
      const auto key = table.find(name);
      const SetResult result =
          key != table.end() ? set_key(draft, key->first, key->second) : SetResult{};
      if (!result) {
        return std::unexpected(result.error());
      }
    }
    for (const auto& [key, node] : table) {
      const SetResult result =
          key.str() == "limits" ? set_limits(draft, node) : set_key(draft, key, node);
      if (!result) {
        return std::unexpected(result.error());
      }
    }
    return draft;
  }

  /// A device is in one place: `own` has it of itself, the others of an interface.
  SetResult check_places(const toml::table& table, std::string_view own) const {
    std::string_view earlier;
    for (const std::string_view place :
         {own, std::string_view("interface"), std::string_view("raw")}) {
      if (table.contains(place) && !earlier.empty()) {
        return refuse(
            table.get(place)->source().begin,
            fmt::format("\"{}\" and \"{}\" contradict each other; give one", earlier, place));
      }
      earlier = table.contains(place) ? place : earlier;
    }
    return {};
  }

  SetResult set_key(DeviceDraft& draft, const toml::key& name, const toml::node& node) const {
    const auto key = std::ranges::find(keys, name.str(), &Key::name);
    if (key == keys.end()) {
      std::vector<std::string_view> names;
      std::ranges::transform(keys, std::back_inserter(names), &Key::name);
      return refuse(name.source().begin, fmt::format("unknown key \"{}\"; a device has {}, limits",
                                                     name.str(), fmt::join(names, ", ")));
    }
    if (const SetResult result = key->set(draft, node); !result) {
      return refuse(node.source().begin, fmt::format("{}: {}", name.str(), result.error()));
    }
    return {};
  }

  SetResult set_limits(DeviceDraft& draft, const toml::node& node) const {
    if (!node.is_table()) {
      return refuse(node.source().begin, "limits: this must be a table");
    }
    for (const auto& [name, value] : *node.as_table()) {
      const auto number = value_as<std::int64_t>(value, "a whole number");
      const SetResult result =
          number ? draft.set_limit(name.str(), *number) : std::unexpected(number.error());
      if (!result) {
        return refuse(value.source().begin,
                      fmt::format("limits.{}: {}", name.str(), result.error()));
      }
    }
    return {};
  }

  std::string_view file_name_;
};

}  // namespace

Result<std::string, int> read_config_file(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  // One byte more than allowed tells that there is more.
  std::string content(config_file_bytes_max + 1, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (file.bad() || (file.fail() && !file.eof()) || !file.is_open()) {
    return std::unexpected(errno);
  }
  content.resize(static_cast<std::size_t>(file.gcount()));
  if (content.size() > config_file_bytes_max) {
    return std::unexpected(EFBIG);
  }
  return content;
}

Result<std::vector<DeviceDraft>, std::string> parse_config_file(std::string_view toml,
                                                                std::string_view file_name) {
  const toml::parse_result parsed = toml::parse(toml);
  if (!parsed) {
    return std::unexpected(
        at(file_name, parsed.error().source().begin, parsed.error().description()));
  }
  return Reader(file_name).read(parsed.table());
}

}  // namespace verbena::ports
