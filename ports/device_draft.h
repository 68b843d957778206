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
  /// IP addresses of this host as text.
  SetResult set_addresses(const std::vector<std::string>& addresses);
  SetResult set_interface(std::string_view interface);
  SetResult set_raw(std::string_view interface);
  SetResult set_vlan(std::int64_t identifier);
  SetResult set_mtu(std::int64_t bytes);
  SetResult set_guid(std::string_view text);
  SetResult set_profile(std::string_view name);
  SetResult set_ack_timeout_min_ms(std::int64_t milliseconds);
  SetResult set_icrc_sent(std::string_view word);
  SetResult set_icrc_check(std::string_view word);
  SetResult set_connect_timeout_s(std::int64_t seconds);
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

  [[nodiscard]] const std::string& name() const { return config_.name; }
  /// Fills in what nobody has set, and checks what belongs together.
  [[nodiscard]] Result<DeviceConfig, std::string> finish() &&;

 private:
  SetResult add_rule(Result<faults::Rule, faults::RuleError> rule);
  /// Limits that were set, where they are lower than the profile's.
  void apply_limits();
  /// The largest MTU that fits the interfaces, or an error if one was set that doesn't.
  SetResult finish_mtu();

  DeviceConfig config_;
  std::optional<nic::Mtu> mtu_;
  /// Those that were set, by their place in the table of limits.
  std::map<std::size_t, std::int64_t> limits_;
};

}  // namespace verbena::ports
