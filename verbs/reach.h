// Whether the device can reach an address at all: told when a program connects, instead of a
// timeout later.
#pragma once

#include <optional>
#include <string>

#include "ports/device_config.h"
#include "proto/gid.h"

namespace verbena::verbs {

/// Why no frame of `device` can get to `destination`, as a sentence for the user; nullopt if one
/// can.
[[nodiscard]] std::optional<std::string> why_unreachable(const ports::DeviceConfig& device,
                                                         const Gid& destination);

}  // namespace verbena::verbs
