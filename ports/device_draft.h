// A device configuration in the making: what the file and the environment have said so far. Both
// speak through the same setters, so both have the same limits and the same words for errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "faults/parse.h"
#include "ports/device_config.h"

namespace verbena::ports {

/// Why a value is refused; the caller puts in front where it stood.
using SetResult = Result<void, std::string>;

class DeviceDraft {
 public:
  SetResult set_name(std::string_view name);
  /// IP addresses as text: of this host, or on a link of one's own, with their subnets.
  SetResult set_addresses(const std::vector<std::string>& addresses);
  SetResult set_interface(std::string_view interface);
  SetResult set_raw(std::string_view interface);
  SetResult set_link(std::string_view link);
  SetResult set_mac(std::string_view mac);
  SetResult set_vlan(std::int64_t identifier);
  SetResult set_mtu(std::int64_t bytes);
  SetResult set_guid(std::string_view text);
  /// "roce" or "iwarp".
  SetResult set_transport(std::string_view name);
  SetResult set_profile(std::string_view name);
  SetResult set_ack_timeout_min_ms(std::int64_t milliseconds);
  SetResult set_icrc_sent(std::string_view word);
  SetResult set_icrc_check(std::string_view word);
  SetResult set_connect_timeout_s(std::int64_t seconds);
  // Of iWARP.
  SetResult set_mpa_revision(std::int64_t revision);
  /// "on", "off" or "refuse".
  SetResult set_mpa_crc(std::string_view policy);
  SetResult set_mpa_markers(bool wanted);
  SetResult set_mpa_peer_to_peer(bool wanted);
  SetResult set_mpa_legacy_depths(bool wanted);

  SetResult set_fabric(std::string_view name_or_path);
  SetResult set_ring_kib(std::int64_t kib);
  SetResult set_capture(std::string_view path);
  /// At most what the profile has, which may come before or after.
  SetResult set_limit(std::string_view name, std::int64_t value);
  /// Rules as words (faults/parse.h), a ';' between them.
  SetResult add_faults(std::string_view rules);
  SetResult add_fault_file(std::string_view path);
  SetResult add_fault_rate(faults::ActionKind action, std::string_view chance);
  SetResult add_delay(std::string_view time);
  SetResult set_fault_seed(std::int64_t seed);

  /// Its own, or else the one that belongs to its transport.
  [[nodiscard]] std::string name() const;
  [[nodiscard]] bool is_iwarp() const { return config_.technology == nic::Technology::iwarp; }
  /// Its frames are our own, and not made by the operating system's TCP.
  [[nodiscard]] bool makes_frames() const { return !is_iwarp() || !config_.link.empty(); }
  /// See DeviceConfig::notes.
  void add_note(std::string sentence) { config_.notes.push_back(std::move(sentence)); }
  /// Fills in what nobody has set, and checks what belongs together.
  [[nodiscard]] Result<DeviceConfig, std::string> finish() &&;

 private:
  /// Checks what a device on a link needs, and completes it.
  SetResult finish_link();
  SetResult add_rule(Result<faults::Rule, faults::RuleError> rule);
  /// Limits that were set, where they are lower than the profile's.
  void apply_limits();
  /// The largest MTU that fits the interfaces, or an error if one was set that doesn't.
  SetResult finish_mtu();

  /// What only one of the transports has.
  [[nodiscard]] SetResult check_transport() const;

  DeviceConfig config_;
  std::optional<std::string> name_;
  bool has_iwarp_settings_ = false;
  bool has_roce_settings_ = false;
  std::optional<nic::Mtu> mtu_;
  std::optional<inet::MacAddress> mac_;
  /// Those that were set, by their place in the table of limits.
  std::map<std::size_t, std::int64_t> limits_;
};

}  // namespace verbena::ports
