// The order in which a device fills its GID table.
#pragma once

#include <vector>

#include "nic_model/device_profile.h"
#include "nic_model/types.h"

namespace verbena::nic {

/// The rows of `gids` in the order of a device of this profile. One that is imitated has no more of
/// them than its table holds, and none of a version that it doesn't speak, if others remain.
[[nodiscard]] std::vector<GidEntry> arranged(const DeviceProfile& profile,
                                             const std::vector<GidEntry>& gids);

}  // namespace verbena::nic
