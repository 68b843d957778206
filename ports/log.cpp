#include "ports/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "ports/device_config.h"
#include "ports/engine.h"
#include "ports/sys.h"

namespace verbena::ports {

namespace {

LogLevel level_of_environment() {
  const char* name = secure_getenv(env::log);
  // load_devices() refuses what is no level; until then, and if nobody asks it, warnings are said.
  return name == nullptr ? LogLevel::warn : log_level_of(name).value_or(LogLevel::warn);
}

void write_line(const std::string& line) {
  sys::write_all(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

std::optional<LogLevel> log_level_of(std::string_view name) {
  const auto* const found = std::ranges::find(log_level_names, name);
  if (found == log_level_names.end()) {
    return std::nullopt;
  }
  return static_cast<LogLevel>(found - log_level_names.begin());
}

bool logs(LogLevel level) {
  static const LogLevel highest = level_of_environment();
  return level <= highest;
}

void report(std::string_view sentence, LogLevel level) {
  if (logs(level)) {
    write_line(fmt::format("verbena: {}\n", sentence));
  }
}

void log(LogLevel level, std::string_view device, std::optional<Qpn> qpn,
         std::string_view sentence) {
  if (!logs(level)) {
    return;
  }
  const auto now =
      std::chrono::duration_cast<std::chrono::microseconds>(Engine::now().time_since_epoch());
  write_line(fmt::format("verbena: {}: [{}.{:06}] {} of process {}{}: {}\n",
                         log_level_names[static_cast<std::size_t>(level)], now.count() / 1'000'000,
                         now.count() % 1'000'000, device, sys::process_id(),
                         qpn ? fmt::format(", QP 0x{:06x}", to_value(*qpn)) : "", sentence));
}

}  // namespace verbena::ports
