// The host's real RDMA devices beside ours (docs/real-devices.md): whether a program is to see
// them, and which library drives them. The drop-in library opens it (verbs/real_library.h),
// `verbena doctor` says what it would find.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "ports/device_config.h"

namespace verbena::ports {

struct RealDevices {
  bool wanted = false;
  /// The system's libibverbs.so.1; empty: where the loader looks by default.
  std::string library;
};

/// From VERBENA_REAL_DEVICES (1 or 0) and VERBENA_REAL_LIBIBVERBS, or else from the configuration
/// file. The error is a sentence for the user.
[[nodiscard]] Result<RealDevices, std::string> load_real_devices(const Environment& environment);

/// The files that may be the library, in the order in which they are to be tried.
[[nodiscard]] std::vector<std::string> real_library_candidates(const RealDevices& real);

/// The devices that the kernel has, by their names; empty where it knows of no RDMA.
[[nodiscard]] std::vector<std::string> kernel_device_names();

}  // namespace verbena::ports
