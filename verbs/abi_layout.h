// The layout that compiled programs rely on, as numbers. Programs were compiled against rdma-core's
// headers of whatever version; their inline functions read and call through these offsets. A newer
// libibverbs-dev that moved one of them would break every program, and must not compile here.
// x86-64, rdma-core 44.0.
#pragma once

#include <infiniband/sa.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>

#include "verbs/abi.h"

namespace verbena::verbs {

#define VERBENA_SIZE(type, bytes) static_assert(sizeof(type) == (bytes))
#define VERBENA_OFFSET(type, member, bytes) static_assert(offsetof(type, member) == (bytes))

VERBENA_SIZE(ibv_device, 664);
VERBENA_OFFSET(ibv_device, name, 24);
VERBENA_OFFSET(ibv_device, dev_name, 88);
VERBENA_OFFSET(ibv_device, dev_path, 152);
VERBENA_OFFSET(ibv_device, ibdev_path, 408);

VERBENA_SIZE(ibv_context, 328);
VERBENA_OFFSET(ibv_context, ops, 8);
VERBENA_OFFSET(ibv_context, ops.alloc_mw, 64);
VERBENA_OFFSET(ibv_context, ops.bind_mw, 72);
VERBENA_OFFSET(ibv_context, ops.dealloc_mw, 80);
VERBENA_OFFSET(ibv_context, ops.poll_cq, 96);
VERBENA_OFFSET(ibv_context, ops.req_notify_cq, 104);
VERBENA_OFFSET(ibv_context, ops.post_srq_recv, 168);
VERBENA_OFFSET(ibv_context, ops.post_send, 208);
VERBENA_OFFSET(ibv_context, ops.post_recv, 216);
VERBENA_OFFSET(ibv_context, cmd_fd, 264);
VERBENA_OFFSET(ibv_context, async_fd, 268);
VERBENA_OFFSET(ibv_context, num_comp_vectors, 272);
VERBENA_OFFSET(ibv_context, mutex, 280);
VERBENA_OFFSET(ibv_context, abi_compat, 320);

// This struct grows at its head: `sz` tells an older or newer program how much of it there is.
VERBENA_SIZE(verbs_context, 648);
VERBENA_OFFSET(verbs_context, query_port, 0);
VERBENA_OFFSET(verbs_context, create_cq_ex, 200);
VERBENA_OFFSET(verbs_context, priv, 208);
VERBENA_OFFSET(verbs_context, query_device_ex, 216);
VERBENA_OFFSET(verbs_context, create_qp_ex, 264);
VERBENA_OFFSET(verbs_context, sz, 312);
VERBENA_OFFSET(verbs_context, context, 320);

VERBENA_SIZE(ibv_pd, 16);
VERBENA_SIZE(ibv_mr, 48);
VERBENA_OFFSET(ibv_mr, lkey, 36);
VERBENA_OFFSET(ibv_mr, rkey, 40);
VERBENA_SIZE(ibv_mw, 32);

VERBENA_SIZE(ibv_comp_channel, 16);
VERBENA_SIZE(ibv_cq, 128);
VERBENA_OFFSET(ibv_cq, channel, 8);
VERBENA_OFFSET(ibv_cq, cq_context, 16);
VERBENA_OFFSET(ibv_cq, cqe, 28);
VERBENA_SIZE(ibv_cq_ex, 288);
VERBENA_OFFSET(ibv_cq_ex, comp_mask, 128);
VERBENA_OFFSET(ibv_cq_ex, status, 132);
VERBENA_OFFSET(ibv_cq_ex, wr_id, 136);
VERBENA_OFFSET(ibv_cq_ex, start_poll, 144);
VERBENA_OFFSET(ibv_cq_ex, read_completion_wallclock_ns, 280);

VERBENA_SIZE(ibv_qp, 160);
VERBENA_OFFSET(ibv_qp, qp_num, 52);
VERBENA_OFFSET(ibv_qp, state, 56);
VERBENA_OFFSET(ibv_qp, qp_type, 60);
VERBENA_SIZE(ibv_qp_ex, 352);
VERBENA_OFFSET(ibv_qp_ex, comp_mask, 160);
VERBENA_OFFSET(ibv_qp_ex, wr_id, 168);
VERBENA_OFFSET(ibv_qp_ex, wr_flags, 176);
VERBENA_OFFSET(ibv_qp_ex, wr_atomic_cmp_swp, 184);
VERBENA_OFFSET(ibv_qp_ex, wr_atomic_write, 344);

VERBENA_SIZE(ibv_srq, 128);
VERBENA_SIZE(ibv_ah, 24);
VERBENA_SIZE(ibv_wc, 48);
VERBENA_SIZE(ibv_sge, 16);
VERBENA_SIZE(ibv_send_wr, 128);
VERBENA_SIZE(ibv_recv_wr, 32);
VERBENA_SIZE(ibv_port_attr, 52);
VERBENA_OFFSET(ibv_port_attr, port_cap_flags2, 48);
VERBENA_SIZE(ibv_device_attr, 232);
VERBENA_SIZE(ibv_device_attr_ex, 400);
VERBENA_SIZE(ibv_qp_attr, 144);
VERBENA_SIZE(ibv_qp_init_attr, 64);
VERBENA_SIZE(ibv_qp_init_attr_ex, 136);
VERBENA_SIZE(ibv_gid_entry, 32);
VERBENA_SIZE(ibv_async_event, 16);
VERBENA_SIZE(ibv_sa_path_rec, 64);

VERBENA_SIZE(rdma_cm_id, 416);
VERBENA_OFFSET(rdma_cm_id, qp, 24);
VERBENA_OFFSET(rdma_cm_id, route, 32);
VERBENA_OFFSET(rdma_cm_id, ps, 344);
VERBENA_OFFSET(rdma_cm_id, port_num, 348);
VERBENA_OFFSET(rdma_cm_id, event, 352);
VERBENA_OFFSET(rdma_cm_id, qp_type, 408);
VERBENA_SIZE(rdma_cm_event, 80);
VERBENA_SIZE(rdma_conn_param, 24);
VERBENA_SIZE(rdma_ud_param, 56);
VERBENA_SIZE(rdma_addrinfo, 96);
VERBENA_SIZE(rdma_event_channel, 4);

#undef VERBENA_SIZE
#undef VERBENA_OFFSET

/// What rdma-core's provider ABI puts behind an ibv_device. mlx5dv_is_supported() and the like read
/// `ops` of every device, ours too, and compare it with their own. The rest is there for its size.
struct VerbsDevice {
  ibv_device device;
  const void* ops;
  int refcount;
  void* entry[2];
  void* sysfs;
  std::uint64_t core_support;
};
static_assert(offsetof(VerbsDevice, ops) == 664);

}  // namespace verbena::verbs
