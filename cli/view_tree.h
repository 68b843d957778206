// A directory tree with the files that programs look for when they look for RDMA devices by
// themselves: <root>/sys/class/infiniband, .../infiniband_verbs and <root>/dev/infiniband.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "ports/device_config.h"

namespace verbena::cli {

/// Makes the tree of these devices, or finds it made: it is named after what is in it, in a
/// directory of this user's, and stays for the next one who wants the same. Returns its root.
[[nodiscard]] Result<std::string, std::string> make_view_tree(
    const std::vector<ports::DeviceConfig>& devices);

}  // namespace verbena::cli
