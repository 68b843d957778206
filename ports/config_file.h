// The TOML form of a device configuration (device_config.h shows one).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ports/device_draft.h"
#include "ports/real_devices.h"

namespace verbena::ports {

/// The text of a file that a setting names, config_file_bytes_max at most; or an errno, EFBIG if it
/// is longer.
[[nodiscard]] Result<std::string, int> read_config_file(const std::string& name);

/// The devices of a configuration file's text, 1 to devices_max. Errors begin with
/// "<file_name>:<line>:<column>: ".
[[nodiscard]] Result<std::vector<DeviceDraft>, std::string> parse_config_file(
    std::string_view toml, std::string_view file_name);

/// What the same text says of the host's own devices. What isn't said is left as it is by default.
[[nodiscard]] Result<RealDevices, std::string> parse_real_devices(std::string_view toml,
                                                                  std::string_view file_name);

}  // namespace verbena::ports
