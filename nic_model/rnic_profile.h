// What is left of a profile on an iWARP device: its limits, without what there is on RoCE only.
#pragma once

#include "nic_model/device_profile.h"

namespace verbena::nic {

/// Reliable connections and nothing else (RFC 5040): no datagrams and so no address handles and
/// groups, no partitions, no atomics (RFC 7306 is not spoken), one SGE for what a READ brings, no
/// demand paging, and a GID table of one row, the Ethernet address.
[[nodiscard]] DeviceProfile rnic_profile(DeviceProfile profile);

}  // namespace verbena::nic
