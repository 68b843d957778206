// The path view: what programs find in /sys/class/infiniband, /sys/class/infiniband_verbs and
// /dev/infiniband. A kernel that has no RDMA device has none of them, and programs that look there
// before they ask libibverbs find no device (UCX, scripts).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ports/device_config.h"

namespace verbena::cli {

enum class PathView : std::uint8_t {
  /// `preload` if that can be had, else none.
  automatic,
  /// In a user and mount namespace of the program's own (view_namespace.h).
  userns,
  /// Through a library in front of the C library (verbs/path_view.cpp).
  preload,
  none,
};

/// Of "auto", "userns", "preload" or "none".
[[nodiscard]] std::optional<PathView> path_view_of(std::string_view name);

/// Prepares this process for the program that it is about to execute. `libraries` is the directory
/// of ours. The error is a sentence.
[[nodiscard]] Result<void, std::string> show_paths(PathView view,
                                                   const std::vector<ports::DeviceConfig>& devices,
                                                   const std::string& libraries);

}  // namespace verbena::cli
