// A device configuration in the making: what the file and the environment have said so far. Both
// speak through the same setters, so both have the same limits and the same words for errors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ports/device_config.h"

namespace verbena::ports {

/// Why a value is refused; the caller puts in front where it stood.
using SetResult = Result<void, std::string>;

class DeviceDraft {
 public:
  SetResult set_name(std::string_view name);
  /// IPv4 addresses of this host as text.
  SetResult set_addresses(const std::vector<std::string>& addresses);
  SetResult set_interface(std::string_view interface);
  SetResult set_mtu(std::int64_t bytes);
  SetResult set_guid(std::string_view text);
  SetResult set_profile(std::string_view name);
  SetResult set_ack_timeout_min_ms(std::int64_t milliseconds);
  SetResult set_fabric(std::string_view name_or_path);
  SetResult set_ring_kib(std::int64_t kib);
  SetResult set_capture(std::string_view path);
  SetResult set_limit(std::string_view name, std::int64_t value);

  [[nodiscard]] const std::string& name() const { return config_.name; }
  /// Fills in what nobody has set.
  [[nodiscard]] DeviceConfig finish() &&;

 private:
  DeviceConfig config_;
};

}  // namespace verbena::ports
