// Differences between ours and the kernel's devices that are as they should be: each with the rule
// that makes ours right, or both.
#pragma once

#include <optional>
#include <string>

#include "cli/xcheck_compare.h"
#include "cli/xcheck_matrix.h"

namespace verbena::cli {

/// Why a difference may be, to rxe or, on iWARP, to siw; nullopt if nobody said so.
[[nodiscard]] std::optional<std::string> rule_for(const Difference& difference, bool is_iwarp);

/// What is known of a difference on the wire; nullopt if nothing is.
[[nodiscard]] std::optional<std::string> known_bug(const MatrixCell& cell,
                                                   const std::string& against);

/// Where frames are lost on purpose, what follows from that for a service that may lose messages;
/// nullopt for anything else.
[[nodiscard]] std::optional<std::string> loss_of_unreliable(const MatrixCell& cell);

}  // namespace verbena::cli
