// What is left of a profile on an iWARP device: its limits, without what there is on RoCE only.
#pragma once

#include "nic_model/device_profile.h"

namespace verbena::nic {

/// Reliable connections and nothing else (RFC 5040): no datagrams and so no address handles and
/// groups, no partitions, one SGE for what a READ brings, no demand paging, and a GID table of one
/// row, the Ethernet address. Atomics and immediate data only with RFC 7306, which both ends have
/// to have and which nothing on the wire tells: `rdmap_extensions` is what the user says.
[[nodiscard]] DeviceProfile rnic_profile(DeviceProfile profile, bool rdmap_extensions = false);

}  // namespace verbena::nic
