#include "ports/device_draft.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "ports/interfaces.h"
#include "ports/link.h"
#include "ports/packet_sizes.h"
#include "ports/sys.h"
#include "ports/sys_net.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

std::unexpected<std::string> refuse(std::string reason) {
  return std::unexpected(std::move(reason));
}

/// Sets an enumeration whose enumerators have these names, in order.
template <class Enum>
SetResult choose(std::span<const std::string_view> words, std::string_view word, Enum& value) {
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) {
    return refuse(fmt::format("the value is {}, not \"{}\"", fmt::join(words, ", "), word));
  }
  value = static_cast<Enum>(found - words.begin());
  return {};
}

bool is_plain_name(std::string_view text, std::size_t bytes_max) {
  constexpr std::string_view allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !text.empty() && text.size() <= bytes_max && text.front() != '.' &&
         text.find_first_not_of(allowed) == std::string_view::npos;
}

std::string list_of(const std::vector<InterfaceAddress>& host) {
  std::vector<std::string> items;
  items.reserve(host.size());
  for (const InterfaceAddress& item : host) {
    items.push_back(fmt::format("{} ({})", roce::to_address_text(item.address), item.interface));
  }
  return fmt::format("{}", fmt::join(items, ", "));
}

/// In which order an interface gives its addresses.
int rank_of(const Gid& address) {
  if (roce::ipv4_from_gid(address)) {
    return 0;
  }
  return roce::ipv6_from_gid(address).is_link_local() ? 2 : 1;
}

/// A limit of DeviceProfile that a configuration may lower.
struct Limit {
  std::string_view name;
  std::int64_t value_min;
  std::int64_t (*get)(const nic::DeviceProfile&);
  void (*set)(nic::DeviceProfile&, std::int64_t);
};

#define VERBENA_LIMIT(field, value_min)                                                \
  Limit {                                                                              \
    #field, value_min,                                                                 \
        [](const nic::DeviceProfile& profile) { return std::int64_t{profile.field}; }, \
        [](nic::DeviceProfile& profile, std::int64_t value) {                          \
          profile.field = static_cast<decltype(nic::DeviceProfile::field)>(value);     \
        }                                                                              \
  }
constexpr std::array limits = {
    VERBENA_LIMIT(qp_max, 1),           VERBENA_LIMIT(qp_wr_max, 1),
    VERBENA_LIMIT(sge_max, 1),          VERBENA_LIMIT(cq_max, 1),
    VERBENA_LIMIT(cqe_max, 1),          VERBENA_LIMIT(mr_max, 1),
    VERBENA_LIMIT(pd_max, 1),           VERBENA_LIMIT(ah_max, 0),
    VERBENA_LIMIT(srq_max, 0),          VERBENA_LIMIT(srq_wr_max, 1),
    VERBENA_LIMIT(mw_max, 0),           VERBENA_LIMIT(qp_rd_atom_max, 1),
    VERBENA_LIMIT(inline_bytes_max, 0),
};
#undef VERBENA_LIMIT

/// Whether a device may have that address: one of this host, but on a link one that is not.
SetResult check_address(const std::string& text, const Gid& address, bool on_link,
                        const std::vector<InterfaceAddress>& host) {
  const bool is_here = is_local(address, host);
  if (on_link && (is_here || roce::is_multicast(address))) {
    return refuse(fmt::format(
        "{} is an address of this host, or a group; a device on a link needs one of its own",
        text));
  }
  if (!on_link && !is_here) {
    return refuse(fmt::format("{} is not an address of this host; it has {}", text, list_of(host)));
  }
  if (!on_link && text.find('/') != std::string::npos) {
    return refuse(fmt::format("{}: only the address of a link ({}) has a subnet", text, env::link));
  }
  return {};
}

/// The default place, or one beside it. Network namespaces are hosts of their own: 127.0.0.1 of one
/// is not that of another, so each has its own fabric.
std::string path_of_fabric(std::string_view name) {
  std::array<char, 64> link{};
  const ssize_t length = readlink("/proc/self/ns/net", link.data(), link.size() - 1);
  std::string name_space;
  for (ssize_t i = 0; i < length; ++i) {
    const char c = link[static_cast<std::size_t>(i)];
    if (c >= '0' && c <= '9') {
      name_space += c;
    }
  }
  return fmt::format("/dev/shm/verbena-{}/{}{}{}.fabric", sys::effective_user_id(), name,
                     name_space.empty() ? "" : "-", name_space);
}

}  // namespace

SetResult DeviceDraft::set_name(std::string_view name) {
  if (!is_plain_name(name, device_name_bytes_max)) {
    return refuse(
        fmt::format("\"{}\" is no device name: use 1 to {} letters, digits, '_', '-' and '.'", name,
                    device_name_bytes_max));
  }
  name_ = name;
  return {};
}

std::string DeviceDraft::name() const {
  return name_.value_or(is_iwarp() ? "verbena_iw0" : "verbena0");
}

SetResult DeviceDraft::set_transport(std::string_view name) {
  if (name != "roce" && name != "iwarp") {
    return refuse(fmt::format("a transport is \"roce\" or \"iwarp\", not \"{}\"", name));
  }
  config_.technology = name == "iwarp" ? nic::Technology::iwarp : nic::Technology::roce;
  return {};
}

SetResult DeviceDraft::set_mpa_revision(std::int64_t revision) {
  if (revision != 1 && revision != 2) {
    return refuse(fmt::format("MPA has the revisions 1 and 2, not {}", revision));
  }
  config_.mpa.revision = static_cast<std::uint8_t>(revision);
  has_iwarp_settings_ = true;
  return {};
}

SetResult DeviceDraft::set_mpa_crc(std::string_view policy) {
  using iwarp::CrcPolicy;
  struct Word {
    std::string_view word;
    CrcPolicy policy;
  };
  constexpr std::array words = {Word{"on", CrcPolicy::ask}, Word{"off", CrcPolicy::accept},
                                Word{"refuse", CrcPolicy::refuse}};
  const auto found = std::ranges::find(words, policy, &Word::word);
  if (found == words.end()) {
    return refuse(fmt::format("the CRC is \"on\", \"off\" or \"refuse\", not \"{}\"", policy));
  }
  config_.mpa.crc = found->policy;
  has_iwarp_settings_ = true;
  return {};
}

SetResult DeviceDraft::set_mpa_markers(bool wanted) {
  config_.mpa.markers = wanted;
  has_iwarp_settings_ = true;
  return {};
}

SetResult DeviceDraft::set_mpa_peer_to_peer(bool wanted) {
  config_.mpa.peer_to_peer = wanted;
  has_iwarp_settings_ = true;
  return {};
}

SetResult DeviceDraft::set_rdmap_extensions(bool wanted) {
  config_.rdmap_extensions = wanted;
  has_iwarp_settings_ = true;
  return {};
}

SetResult DeviceDraft::set_mpa_legacy_depths(bool wanted) {
  config_.mpa.legacy_depths = wanted;
  has_iwarp_settings_ = true;
  return {};
}

SetResult DeviceDraft::set_addresses(const std::vector<std::string>& addresses) {
  if (addresses.empty() || addresses.size() > gids_max) {
    return refuse(
        fmt::format("a device has 1 to {} addresses, not {}", gids_max, addresses.size()));
  }
  const auto host = host_addresses();
  const bool on_link = !config_.link.empty();
  std::vector<Gid> parsed;
  std::vector<inet::LinkAddress> with_subnets;
  for (const std::string& text : addresses) {
    const auto link_address = inet::LinkAddress::from_text(text);
    if (!link_address) {
      return refuse(fmt::format("\"{}\" is no IP address", text));
    }
    const Gid address = roce::gid_from_ipv6(link_address->address);
    if (auto result = check_address(text, address, on_link, host); !result) {
      return result;
    }
    if (std::ranges::find(parsed, address) != parsed.end()) {
      return refuse(fmt::format("{} is given twice", text));
    }
    parsed.push_back(address);
    with_subnets.push_back(*link_address);
  }
  config_.addresses = std::move(parsed);
  config_.link_addresses = on_link ? std::move(with_subnets) : std::vector<inet::LinkAddress>{};
  return {};
}

SetResult DeviceDraft::set_interface(std::string_view interface) {
  const auto host = host_addresses();
  std::vector<Gid> found;
  for (const InterfaceAddress& item : host) {
    if (item.interface == interface && found.size() < gids_max) {
      found.push_back(item.address);
    }
  }
  if (found.empty()) {
    return refuse(fmt::format("this host has no interface \"{}\" with an IP address; it has {}",
                              interface, list_of(host)));
  }
  std::ranges::stable_sort(found, {}, rank_of);
  config_.addresses = std::move(found);
  config_.interface = interface;
  config_.link.clear();
  config_.link_addresses.clear();
  return {};
}

SetResult DeviceDraft::set_raw(std::string_view interface) {
  if (SetResult result = set_interface(interface); !result) {
    return result;
  }
  const auto mac = sys::ethernet_address(config_.interface);
  if (!mac || !config_.faces_network()) {
    return refuse(fmt::format("the interface \"{}\" is no Ethernet", interface));
  }
  config_.mac = *mac;
  config_.raw = true;
  return {};
}

SetResult DeviceDraft::set_link(std::string_view link) {
  auto place = LinkPlace::from_text(link);
  if (!place) {
    return refuse(std::move(place.error()));
  }
  if (config_.link.empty()) {
    // Those that were there are of this host.
    config_.addresses.clear();
  }
  config_.link = place->to_text();
  config_.interface.clear();
  config_.raw = false;
  return {};
}

SetResult DeviceDraft::set_mac(std::string_view mac) {
  const auto parsed = inet::MacAddress::from_text(mac);
  if (!parsed || parsed->is_group() || *parsed == inet::MacAddress{}) {
    return refuse(
        fmt::format("\"{}\" is no Ethernet address of a station: write one like "
                    "02:00:0a:07:00:01, whose first number is even",
                    mac));
  }
  mac_ = parsed;
  return {};
}

SetResult DeviceDraft::set_vlan(std::int64_t identifier) {
  // IEEE 802.1Q, table 9-2: 0 is no VLAN, 4095 is reserved.
  constexpr std::int64_t identifier_max = 4094;
  if (identifier < 1 || identifier > identifier_max) {
    return refuse(fmt::format("a VLAN is 1 to {}, not {}", identifier_max, identifier));
  }
  config_.vlan = static_cast<std::uint16_t>(identifier);
  return {};
}

SetResult DeviceDraft::set_mtu(std::int64_t bytes) {
  for (const auto mtu : mtus) {
    if (nic::mtu_bytes(mtu) == bytes) {
      mtu_ = mtu;
      return {};
    }
  }
  return refuse(fmt::format("an MTU is 256, 512, 1024, 2048 or 4096 bytes, not {}", bytes));
}

SetResult DeviceDraft::set_guid(std::string_view text) {
  std::string digits;
  for (const char c : text.substr(text.starts_with("0x") ? 2 : 0)) {
    if (c != ':' && c != '-') {
      digits += c;
    }
  }
  std::uint64_t guid = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, guid, 16);
  if (digits.size() != 16 || stop != end || error != std::errc{} || guid == 0) {
    return refuse(fmt::format(
        "\"{}\" is no GUID: write 16 hexadecimal digits, not all 0, like 0200:00ff:fe12:3456",
        text));
  }
  config_.guid = guid;
  return {};
}

SetResult DeviceDraft::set_profile(std::string_view name) {
  const nic::DeviceProfile* const profile = nic::find_profile(name);
  if (profile == nullptr) {
    std::vector<std::string_view> names;
    std::ranges::transform(nic::all_profiles(), std::back_inserter(names),
                           &nic::DeviceProfile::name);
    return refuse(
        fmt::format("there is no profile \"{}\"; there are {}", name, fmt::join(names, ", ")));
  }
  config_.profile = *profile;
  apply_limits();
  return {};
}

SetResult DeviceDraft::set_ack_timeout_min_ms(std::int64_t milliseconds) {
  constexpr std::int64_t milliseconds_max = 10'000;
  if (milliseconds < 0 || milliseconds > milliseconds_max) {
    return refuse(fmt::format("the value is 0 to {} ms, not {}", milliseconds_max, milliseconds));
  }
  config_.ack_timeout_min = std::chrono::milliseconds(milliseconds);
  has_roce_settings_ = true;
  return {};
}

SetResult DeviceDraft::set_icrc_sent(std::string_view word) {
  constexpr std::array<std::string_view, 3> words{"good", "bad", "zero"};
  has_roce_settings_ = true;
  return choose(words, word, config_.icrc_sent);
}

SetResult DeviceDraft::set_icrc_check(std::string_view word) {
  constexpr std::array<std::string_view, 3> words{"on", "count", "off"};
  has_roce_settings_ = true;
  return choose(words, word, config_.icrc_check);
}

SetResult DeviceDraft::set_connect_timeout_s(std::int64_t seconds) {
  constexpr std::int64_t seconds_max = 3600;
  if (seconds < 1 || seconds > seconds_max) {
    return refuse(fmt::format("the value is 1 to {} s, not {}", seconds_max, seconds));
  }
  config_.connect_timeout = std::chrono::seconds(seconds);
  return {};
}

SetResult DeviceDraft::set_fabric(std::string_view name_or_path) {
  constexpr std::size_t name_bytes_max = 32;
  const bool is_path = name_or_path.find('/') != std::string_view::npos;
  const bool names_a_file = is_path && name_or_path.front() == '/' && name_or_path.back() != '/' &&
                            name_or_path.rfind('/') > 0;
  if (is_path ? !names_a_file : !is_plain_name(name_or_path, name_bytes_max)) {
    return refuse(fmt::format(
        "\"{}\" is no fabric: give a name of 1 to {} letters, digits, '_', '-' and '.', or an "
        "absolute path of a file in a directory of your own",
        name_or_path, name_bytes_max));
  }
  config_.fabric_path = is_path ? std::string(name_or_path) : path_of_fabric(name_or_path);
  return {};
}

SetResult DeviceDraft::set_ring_kib(std::int64_t kib) {
  constexpr std::int64_t kib_min = ring_bytes_min >> 10;
  constexpr std::int64_t kib_max = ring_bytes_max >> 10;
  if (kib < kib_min || kib > kib_max || !std::has_single_bit(static_cast<std::uint64_t>(kib))) {
    return refuse(
        fmt::format("a ring has {} to {} KiB, a power of two, not {}", kib_min, kib_max, kib));
  }
  config_.ring_bytes = static_cast<std::size_t>(kib) << 10;
  return {};
}

SetResult DeviceDraft::set_capture(std::string_view path) {
  config_.capture = path;
  return {};
}

SetResult DeviceDraft::set_limit(std::string_view name, std::int64_t value) {
  const auto limit = std::ranges::find(limits, name, &Limit::name);
  if (limit == limits.end()) {
    std::vector<std::string_view> names;
    std::ranges::transform(limits, std::back_inserter(names), &Limit::name);
    return refuse(
        fmt::format("there is no limit \"{}\"; there are {}", name, fmt::join(names, ", ")));
  }
  const std::int64_t value_max = limit->get(config_.profile);
  if (value < limit->value_min || value > value_max) {
    return refuse(fmt::format("the value is {} to {}, not {}", limit->value_min, value_max, value));
  }
  limits_[static_cast<std::size_t>(limit - limits.begin())] = value;
  apply_limits();
  return {};
}

void DeviceDraft::apply_limits() {
  for (const auto& [index, value] : limits_) {
    const Limit& limit = limits[index];
    limit.set(config_.profile, std::min(value, limit.get(config_.profile)));
  }
}

}  // namespace verbena::ports
