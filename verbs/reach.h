// Whether the device can reach an address at all: told when a program connects, instead of a
// timeout later.
#pragma once

#include <optional>
#include <string>

#include "nic_model/types.h"
#include "ports/device_config.h"

namespace verbena::verbs {

/// Why no frame of `device` can get to where `av` says, as a sentence for the user; nullopt if one
/// can, or if `av` is wrong in itself.
[[nodiscard]] std::optional<std::string> why_unreachable(const ports::DeviceConfig& device,
                                                         const nic::AddressVector& av);

}  // namespace verbena::verbs
