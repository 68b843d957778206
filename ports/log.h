// Messages on standard error. VERBENA_LOG says which: off, error, warn (the default), info, debug
// or trace; each level has those before it as well. docs/observability.md lists what each tells.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ids.h"

namespace verbena::ports {

enum class LogLevel : std::uint8_t { off, error, warn, info, debug, trace };

/// In the order of LogLevel: what VERBENA_LOG may be.
inline constexpr std::array<std::string_view, 6> log_level_names = {"off",  "error", "warn",
                                                                    "info", "debug", "trace"};

[[nodiscard]] std::optional<LogLevel> log_level_of(std::string_view name);

/// Whether messages of this level are written. Constant while the process lives, and cheap.
[[nodiscard]] bool logs(LogLevel level);

/// What the user should know of: writes "verbena: <sentence>" and a line feed, with one system
/// call. Any thread may call these.
void report(std::string_view sentence, LogLevel level = LogLevel::warn);

/// What a device does: writes
///   verbena: debug: [12345.678901] verbena0 of process 99, QP 0x001000: <sentence>
/// The time is CLOCK_MONOTONIC, which all processes of a host share.
void log(LogLevel level, std::string_view device, std::optional<Qpn> qpn,
         std::string_view sentence);

}  // namespace verbena::ports
