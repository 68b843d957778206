// The table of `verbena top`: what happened between two looks at the devices.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/observed.h"

namespace verbena::cli {

/// Lines of text without line feeds: devices and queue pairs, each sorted by the bytes that they
/// moved a second, and what was dropped and why. At most `rows_max` lines.
[[nodiscard]] std::vector<std::string> top_table(const Observed& before, const Observed& now,
                                                 std::size_t rows_max);

/// Four digits at most: "0", "999", "1.2K", "34M", "5.6G"; by powers of ten.
[[nodiscard]] std::string short_number(double value);

}  // namespace verbena::cli
