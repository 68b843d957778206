// Differences between our answers to a script and those of the kernel's device that are known: each
// with the rule that makes ours right, or both, and where in the kernel it comes from.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/answer_compare.h"

namespace verbena::cli {

/// nullopt if nobody has said why. `scenario` is the file's name without folder and ending.
[[nodiscard]] std::optional<std::string> rule_for(std::string_view against,
                                                  const std::string& scenario,
                                                  const AnswerDifference& difference);

/// A script that is known to bring the device down, and its kernel with it.
[[nodiscard]] bool is_known_to_end(std::string_view against, const std::string& scenario);

}  // namespace verbena::cli
