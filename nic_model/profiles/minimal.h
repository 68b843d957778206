// The least that a device may offer, to find out what a program takes for granted. The
// specification leaves limits to the device, which reports them (IBTA vol 1, 11.2.1.2 Query HCA);
// what it makes optional isn't here: XRC, atomics, shared receive queues, memory windows,
// multicast, and all that came later. A program gets what one queue pair of its own needs, and the
// connection manager what it takes: a protection domain for QP1 and one for programs that bring
// none, two CQs and a region.
#pragma once

#include <chrono>

#include "nic_model/device_profile.h"

namespace verbena::nic::profiles {

inline constexpr DeviceProfile minimal{
    .name = "minimal",
    .vendor_part_id = 2,  // Not the default's.
    .board_id = "",       // Only some drivers have these files.
    .hca_type = "",
    .cap_flags = 0,                     // All are optional.
    .has_xrc = false,                   // An annex: IBTA vol 1, A14.
    .atomic_cap = AtomicCap::none,      // Optional.
    .has_placement_extensions = false,  // An annex: IBTA vol 1, A19.
    .has_timestamps = false,            // Not in the specification.
    .odp = no_odp,                      // Not in the specification.
    .gid_order = GidOrder::only_first,  // One address, one version.
    .page_size_cap = 0x1000,            // One page size.
    .qp_max = 1,                        // Besides the general services interface.
    .qp_wr_max = 16,
    .sge_max = 1,
    .sge_read_max = 1,
    .srq_sge_max = 0,
    .cq_max = 4,  // Two, and two.
    .cqe_max = 64,
    .cq_moderation_count_max = 0,  // Not in the specification.
    .cq_moderation_period_max = Duration::zero(),
    .srq_max = 0,  // Optional.
    .srq_wr_max = 0,
    .mr_max = 2,  // One, and one.
    .mw_max = 0,
    .dm_bytes_max = 0,  // Not in the specification.
    .pd_max = 3,        // One, and two.
    .ah_max = 1,
    .mcast_group_max = 0,  // Optional.
    .mcast_group_qp_max = 0,
    .gid_table_rows = 1,  // A port has at least one.
    .qp_rd_atom_max = 1,
    .inline_bytes_max = 0,     // Not in the specification.
    .rate_limit_kbps_max = 0,  // Not in the specification.
};

}  // namespace verbena::nic::profiles
