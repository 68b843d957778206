// The drop-in libraries, as the command finds them.
#pragma once

#include <optional>
#include <string>

namespace verbena::cli {

inline constexpr const char* library_name = "libibverbs.so.1";

/// Where the drop-in libraries are, seen from our own executable: beside bin/ in a build, in a
/// folder of our own in an installation, so that nobody else finds them by accident.
[[nodiscard]] std::optional<std::string> library_directory();

}  // namespace verbena::cli
