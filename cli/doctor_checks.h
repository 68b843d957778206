// What `verbena doctor` looks at. Each check reads only, and joins no fabric.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "cli/observed.h"
#include "ports/device_config.h"
#include "ports/real_devices.h"

namespace verbena::cli {

struct Finding {
  enum class Grade : std::uint8_t {
    /// As it should be.
    ok,
    /// Good to know.
    note,
    /// Something doesn't work, or didn't.
    problem,
  };

  Grade grade = Grade::ok;
  /// What it is about, a word.
  std::string_view subject;
  std::string sentence;
};
using Findings = std::vector<Finding>;

/// "ok", "note", "problem".
[[nodiscard]] std::string_view name_of(Finding::Grade grade);

/// Whether `verbena run` finds the drop-in libraries.
void check_libraries(Findings& findings);
/// Which of the host's real devices a program would find beside ours. Nothing if they aren't
/// wanted.
void check_real_devices(const ports::RealDevices& real, Findings& findings);
/// Addresses and reach of a device; for one that other hosts reach, whether its UDP port can be
/// had.
void check_device(const ports::DeviceConfig& device, Findings& findings);
/// A fabric's file: who is in it, whether there is room for another process, who listens, and which
/// failures it remembers. Those are told as of `now`.
void check_fabric(const std::string& path, Time now, Findings& findings);
/// Counters of open devices that mean that something is wrong.
void check_counters(const Observed& observed, Findings& findings);

}  // namespace verbena::cli
