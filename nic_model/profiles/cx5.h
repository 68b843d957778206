// Mellanox ConnectX-5 with RoCE, as Linux' mlx5_ib reports it. Listings of `ibv_devinfo -v`:
//
//   [A]  openucx/ucx issue 9830, a ConnectX-5 with Ethernet ports (beginning of the listing)
//   [B]  open-mpi/ompi pull request 6137, a ConnectX-5, up to the atomics
//   [C]  openucx/ucx issue 10317, a ConnectX-6 Lx under the same driver: what follows in [A], whose
//        limits of the firmware's object tables are those of [B] where both tell them
//   [D]  openucx/ucx issue 9976, demand paging under the same driver
//   [E]  openucx/ucx issue 10430, the port of a device of that driver with Ethernet ports
//   [F]  NVIDIA/nccl issue 769, the GID table
#pragma once

#include <chrono>

#include "nic_model/device_profile.h"

namespace verbena::nic::profiles {

inline constexpr DeviceProfile cx5{
    .name = "cx5",
    .vendor_id = 0x02C9,            // [A]
    .vendor_part_id = 4119,         // [A]
    .hw_ver = 0,                    // [A]
    .fw_ver = "16.27.1016",         // [A]
    .board_id = "MT_0000000080",    // [A]
    .hca_type = "MT4119",           // The kernel's mlx5_ib: "MT" and the PCI device ID.
    .cap_flags = 0xED72'1C36,       // [A]
    .port_cap_flags = 0x0401'0000,  // [E]
    .has_uc = true,                 // rdma-core, providers/mlx5.
    .has_ud = true,
    .has_xrc = true,                                    // [A], in cap_flags.
    .atomic_cap = AtomicCap::hca,                       // [B]
    .has_placement_extensions = false,                  // The kernel's mlx5_ib has none.
    .has_timestamps = true,                             // [D]
    .odp = {.general = odp::supported | odp::implicit,  // [D]
            .rc = odp::send | odp::recv | odp::write | odp::read | odp::srq_recv,  // [D]
            .uc = 0,                                                               // [D]
            .ud = odp::send,                                                       // [D]
            .xrc = odp::send | odp::write | odp::read | odp::srq_recv},            // [D]
    .gid_order = GidOrder::linux_v1_and_v2,                                        // [F]
    .mr_bytes_max = ~std::uint64_t{0},                                             // [A]
    .send_bytes_max = 0x4000'0000,                                                 // [E]
    .page_size_cap = 0xFFFF'FFFF'FFFF'F000,                                        // [A]
    .qp_max = 262'144,                                                             // [A]
    .qp_wr_max = 32'768,                                                           // [A]
    .sge_max = 30,                                                                 // [B]
    .sge_read_max = 30,                                                            // [B]
    .srq_sge_max = 31,                                                             // [C]
    .cq_max = 16'777'216,                                                          // [B]
    .cqe_max = 4'194'303,                                                          // [B]
    .cq_moderation_count_max = 65'535,                                             // [E]
    .cq_moderation_period_max = std::chrono::microseconds(4095),                   // [E]
    .srq_max = 8'388'608,                                                          // [C]
    .srq_wr_max = 32'767,                                                          // [C]
    .mr_max = 16'777'216,                                                          // [B]
    .mw_max = 16'777'216,                                                          // [C]
    .dm_bytes_max = 131'072,                                                       // [E]
    .pd_max = 16'777'216,                                                          // [B]
    .ah_max = 2'147'483'647,                                                       // [C]
    .mcast_group_max = 2'097'152,                                                  // [C]
    .mcast_group_qp_max = 240,                                                     // [C]
    .pkeys_max = 128,                                                              // [C]
    .gid_table_rows = 256,         // No source: what such ports usually have.
    .qp_rd_atom_max = 16,          // [B]
    .res_rd_atom_max = 4'194'304,  // [B]
    // .inline_bytes_max depends on the rest of the request there. Ours.
    .rate_limit_kbps_max = 0,  // [E]: raw packets only.
    .local_ca_ack_delay = 16,  // [C]
};

}  // namespace verbena::nic::profiles
