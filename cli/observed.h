// What all open devices tell of themselves, in the fabrics that the options name.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cli/device_options.h"
#include "ports/stats_reader.h"

// CLI11 is slow to compile.
namespace CLI {  // NOLINT(readability-identifier-naming): the library chose it
class App;
}

namespace verbena::cli {

struct Observed {
  /// When it was read, CLOCK_MONOTONIC.
  Time time{};
  std::vector<ports::DeviceStatistics> devices;
  /// What could not be read, in sentences.
  std::vector<std::string> failures;
};

/// Adds the options that say which fabrics are meant.
void add_fabric_options(CLI::App& command, DeviceOptions& options);

/// The error is a sentence about the options.
[[nodiscard]] Result<Observed, std::string> observe(const DeviceOptions& options);
[[nodiscard]] Observed observe(const std::set<std::string>& fabrics);

/// "127.0.0.1 QP 0x001000"; "-" without a peer.
[[nodiscard]] std::string peer_text(const ports::QpStatistics& qp);

/// Whether a counter counts frames that were dropped in silence.
[[nodiscard]] bool counts_drops(Counter counter);

}  // namespace verbena::cli
