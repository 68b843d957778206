// The TOML form of a device configuration (device_config.h shows one).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ports/device_draft.h"

namespace verbena::ports {

/// The devices of a configuration file's text, 1 to devices_max. Errors begin with
/// "<file_name>:<line>:<column>: ".
[[nodiscard]] Result<std::vector<DeviceDraft>, std::string> parse_config_file(
    std::string_view toml, std::string_view file_name);

}  // namespace verbena::ports
