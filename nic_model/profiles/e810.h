// Intel E810 with RoCE v2, as Linux' irdma reports it.
//
//   [A]  deepseek-ai/3FS issue 192, a listing of `ibv_devinfo -v`
//   [B]  the kernel's drivers/infiniband/hw/irdma: irdma.h, defs.h, verbs.c (6.1)
#pragma once

#include <chrono>

#include "nic_model/device_profile.h"

namespace verbena::nic::profiles {

inline constexpr DeviceProfile e810{
    .name = "e810",
    .vendor_id = 0x8086,     // [A]
    .vendor_part_id = 5522,  // [A]
    .hw_ver = 2,             // [A]
    .fw_ver = "1.74",        // [A]
    .board_id = "",          // [A] shows none.
    .hca_type = "",
    .cap_flags = 0x0122'1000,       // [A]
    .port_cap_flags = 0x0409'0000,  // [B]: CM, REINIT, and IP-based GIDs.
    .has_uc = false,                // [B]: reliable connections and datagrams only.
    .has_ud = true,
    .has_xrc = false,                   // [A], in cap_flags.
    .atomic_cap = AtomicCap::none,      // [A]
    .has_placement_extensions = false,  // [B]
    .has_timestamps = false,            // [A]
    .odp = no_odp,                      // [A]
    .gid_order = GidOrder::linux_v2,    // [B]: RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP.
    .mr_bytes_max = 0x2000'0000'0000,   // [A]
    .send_bytes_max = 2'147'483'647,    // [B], IRDMA_MAX_OUTBOUND_MSG_SIZE.
    .page_size_cap = 0x4020'1000,       // [A]
    .qp_max = 4092,                     // [A]
    .qp_wr_max = 8127,                  // [A]
    .sge_max = 6,                       // [A]
    .sge_read_max = 6,                  // [A]
    .srq_sge_max = 0,                   // [A] has no shared receive queues.
    .cq_max = 8189,                     // [A]
    .cqe_max = 1'048'574,               // [A]
    .cq_moderation_count_max = 0,       // [B]
    .cq_moderation_period_max = Duration::zero(),
    .srq_max = 0,  // [A]
    .srq_wr_max = 0,
    .mr_max = 4'194'301,       // [A]
    .mw_max = 0,               // [A], though cap_flags speak of windows.
    .dm_bytes_max = 0,         // [A]
    .pd_max = 262'141,         // [A]
    .ah_max = 131'072,         // [A]
    .mcast_group_max = 4096,   // [A]
    .mcast_group_qp_max = 8,   // [A]
    .pkeys_max = 1,            // [A]
    .gid_table_rows = 32,      // [B], irdma_query_port().
    .qp_rd_atom_max = 8,       // [A]
    .res_rd_atom_max = 0,      // [A]
    .inline_bytes_max = 101,   // [B], IRDMA_MAX_INLINE_DATA_SIZE.
    .rate_limit_kbps_max = 0,  // [A]
    .local_ca_ack_delay = 0,   // [A]
};

}  // namespace verbena::nic::profiles
