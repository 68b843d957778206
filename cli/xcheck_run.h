// The runs behind `verbena xcheck`: the conformance program on both sides, and what came of it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/device_options.h"
#include "cli/xcheck_compare.h"
#include "cli/xcheck_matrix.h"

namespace verbena::cli {

/// Against whom, and what.
struct XcheckPlan {
  /// "rxe" or "siw" (in the guest), "self" (another one of ours), or ADDRESS[:PORT] of an agent.
  std::string against;
  /// Part of the names of the operations to run; all if empty.
  std::string only;
  /// Path MTU in bytes; 0: what both ports have.
  unsigned mtu_bytes = 0;
  bool uses_ipv6 = false;
  /// Reliable connections are made through rdma_cm, too, where there is another way.
  bool goes_through_cm = false;
  /// iWARP goes over an emulated wire by our own TCP, not by the system's; siw only.
  bool uses_own_tcp = false;
  /// What the devices' API does, each by itself, instead of what goes over the wire; the guest's
  /// only.
  bool compares_api = false;
  /// Our device's options, for `verbena run`.
  DeviceOptions device;
};

/// One of the two.
struct XcheckResult {
  Matrix matrix;
  Comparison comparison;
};

/// Runs all that the plan says. The error is sentences.
[[nodiscard]] Result<XcheckResult, std::string> run_xcheck(const XcheckPlan& plan);

}  // namespace verbena::cli
