// Differences between ours and the kernel's devices that are as they should be: each with the rule
// that makes ours right, or both.
#pragma once

#include <optional>
#include <string>

#include "cli/xcheck_compare.h"

namespace verbena::cli {

/// Why a difference may be; nullopt if nobody said so.
[[nodiscard]] std::optional<std::string> rule_for(const Difference& difference);

}  // namespace verbena::cli
