// Whether the device can reach an address at all: told when a program connects, instead of a
// timeout later.
#pragma once

#include <optional>
#include <string>

#include "proto/gid.h"

namespace verbena::verbs {

/// Why no frame can get to `destination`, as a sentence for the user; nullopt if one can.
[[nodiscard]] std::optional<std::string> why_unreachable(const Gid& destination);

}  // namespace verbena::verbs
