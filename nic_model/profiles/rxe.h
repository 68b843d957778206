// Linux' own RoCE v2 device in software, rdma_rxe.
//
//   [A]  `ibv_devinfo -v` of rxe0 under Debian's kernel 6.1.192, in a guest
//   [B]  the kernel's drivers/infiniband/sw/rxe/rxe_param.h (6.1)
#pragma once

#include <chrono>

#include "nic_model/device_profile.h"

namespace verbena::nic::profiles {

inline constexpr DeviceProfile rxe{
    .name = "rxe",
    .vendor_id = 0xFF'FFFF,  // [A]
    .vendor_part_id = 0,     // [A]
    .hw_ver = 0,             // [A]
    .fw_ver = "0.0.0",       // [A]
    .board_id = "",          // [A] shows none.
    .hca_type = "",
    .cap_flags = 0x0122'3C76,       // [A]
    .port_cap_flags = 0x0001'0000,  // [A]
    .has_uc = true,                 // [B]
    .has_ud = true,
    .has_xrc = false,                   // [A], in cap_flags.
    .atomic_cap = AtomicCap::hca,       // [A]
    .has_placement_extensions = false,  // [B]: later kernels have them.
    .has_timestamps = false,            // [A]
    .odp = no_odp,                      // [A]
    .gid_order = GidOrder::linux_v2,    // [A]
    .mr_bytes_max = ~std::uint64_t{0},  // [A]
    .send_bytes_max = 0x80'0000,        // [A]
    .page_size_cap = 0xFFFF'F000,       // [A]
    .qp_max = 1'048'560,                // [A]
    .qp_wr_max = 1'048'576,             // [A]
    .sge_max = 32,                      // [A]
    .sge_read_max = 32,                 // [A]
    .srq_sge_max = 27,                  // [A]
    .cq_max = 1'048'576,                // [A]
    .cqe_max = 32'767,                  // [A]
    .cq_moderation_count_max = 0,       // [A]
    .cq_moderation_period_max = Duration::zero(),
    .srq_max = 917'503,          // [A]
    .srq_wr_max = 1'048'576,     // [A]
    .mr_max = 524'287,           // [A]
    .mw_max = 524'287,           // [A]
    .dm_bytes_max = 0,           // [A]
    .pd_max = 1'048'576,         // [A]
    .ah_max = 32'767,            // [A]
    .mcast_group_max = 8192,     // [A]
    .mcast_group_qp_max = 56,    // [A]
    .pkeys_max = 64,             // [A]
    .gid_table_rows = 1024,      // [A]
    .qp_rd_atom_max = 128,       // [A]
    .res_rd_atom_max = 258'048,  // [A]
    .inline_bytes_max = 512,     // [B]: as much as 32 SGEs of 16 bytes take.
    .rate_limit_kbps_max = 0,    // [A]
    .local_ca_ack_delay = 15,    // [A]
};

}  // namespace verbena::nic::profiles
