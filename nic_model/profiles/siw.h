// Linux' iWARP device in software, siw: its limits, on a device that speaks RoCE. What makes sense
// only with iWARP is not imitated: the node type, the GID table (one row, the Ethernet address),
// the absence of partition keys, and that queue pairs are connected by the connection manager only.
//
//   [A]  `ibv_devinfo -v` of siw0 under Debian's kernel 6.1.192, in a guest
//   [B]  the kernel's drivers/infiniband/sw/siw and include/uapi/rdma/siw-abi.h (6.1)
#pragma once

#include <chrono>

#include "nic_model/device_profile.h"

namespace verbena::nic::profiles {

inline constexpr DeviceProfile siw{
    .name = "siw",
    .vendor_id = 0x62'6D74,  // [A]
    .vendor_part_id = 1,     // [A]
    .hw_ver = 0,             // [A]
    .fw_ver = "0.0.0",       // [A]
    .board_id = "",          // [A] shows none.
    .hca_type = "",
    .cap_flags = 0x0020'0000,  // [A]
    // .port_cap_flags: IP-based GIDs, which this device has.
    .has_uc = false,                           // [B], siw_create_qp().
    .has_ud = false,                           // [B]
    .has_xrc = false,                          // [B]
    .atomic_cap = AtomicCap::none,             // [A]
    .has_placement_extensions = false,         // [B]
    .has_timestamps = false,                   // [A]
    .odp = no_odp,                             // [A]
    .gid_order = GidOrder::linux_v2,           // No iWARP device speaks RoCE v1, at least.
    .mr_bytes_max = ~std::uint64_t{0},         // [A]
    .send_bytes_max = std::uint64_t{1} << 31,  // [A] says 2^32 - 1; InfiniBand permits less.
    .page_size_cap = 0x1000,                   // [A]
    .qp_max = 102'400,                         // [A]
    .qp_wr_max = 32'768,                       // [A]
    .sge_max = 6,                              // [A]
    .sge_read_max = 1,                         // [A]
    .srq_sge_max = 6,                          // [A]
    .cq_max = 102'400,                         // [A]
    .cqe_max = 3'276'800,                      // [A]
    .cq_moderation_count_max = 0,              // [A]
    .cq_moderation_period_max = Duration::zero(),
    .srq_max = 102'400,             // [A]
    .srq_wr_max = 327'680,          // [A]
    .mr_max = 1'024'000,            // [A]
    .mw_max = 0,                    // [A]
    .dm_bytes_max = 0,              // [A]
    .pd_max = 102'400,              // [A]
    .ah_max = 0,                    // [A]
    .mcast_group_max = 0,           // [A]
    .mcast_group_qp_max = 0,        // [A]
    .pkeys_max = 1,                 // [A] says 0.
    .gid_table_rows = 16,           // [A] says 1. Ours.
    .qp_rd_atom_max = 128,          // [A]
    .res_rd_atom_max = 13'107'200,  // [A]
    .inline_bytes_max = 80,         // [B], SIW_MAX_INLINE.
    .rate_limit_kbps_max = 0,       // [A]
    .local_ca_ack_delay = 0,        // [A]
};

}  // namespace verbena::nic::profiles
