// A TCP port for a program that we start and that wants to be told where to listen.
#pragma once

#include <cstdint>

namespace verbena::cli {

/// A port of the loopback address that was free a moment ago, never the same one twice. Not for
/// several threads. Throws std::system_error.
[[nodiscard]] std::uint16_t free_port();

}  // namespace verbena::cli
