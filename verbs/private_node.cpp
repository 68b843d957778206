// IBVERBS_PRIVATE_34: the interface between rdma-core's library and its provider plug-ins.
//
// perftest, libfabric and pyverbs link to libmlx5 and libefa, which import nearly all of it; a
// missing name keeps the program from starting. Providers call most of these functions only for a
// device of their own, which this library never has, so they refuse. The exceptions are the
// registration in each provider's constructor, which is ignored, and __verbs_log(), which providers
// call for any context. (ibv_query_gid_type() is in query.cpp.)
//
// The header of this interface is private to rdma-core. Refusing needs no arguments, and on x86-64
// a callee may ignore what it was given.

#include <cerrno>
#include <cstdint>

#include "verbs/abi.h"

// Functions that return an errno value.
#define VERBENA_REFUSED_COMMANDS(X) \
  X(execute_ioctl)                  \
  X(ibv_cmd_advise_mr)              \
  X(ibv_cmd_alloc_dm)               \
  X(ibv_cmd_alloc_mw)               \
  X(ibv_cmd_alloc_pd)               \
  X(ibv_cmd_attach_mcast)           \
  X(ibv_cmd_close_xrcd)             \
  X(ibv_cmd_create_ah)              \
  X(ibv_cmd_create_counters)        \
  X(ibv_cmd_create_cq)              \
  X(ibv_cmd_create_cq_ex)           \
  X(ibv_cmd_create_flow)            \
  X(ibv_cmd_create_flow_action_esp) \
  X(ibv_cmd_create_qp)              \
  X(ibv_cmd_create_qp_ex)           \
  X(ibv_cmd_create_qp_ex2)          \
  X(ibv_cmd_create_rwq_ind_table)   \
  X(ibv_cmd_create_srq)             \
  X(ibv_cmd_create_srq_ex)          \
  X(ibv_cmd_create_wq)              \
  X(ibv_cmd_dealloc_mw)             \
  X(ibv_cmd_dealloc_pd)             \
  X(ibv_cmd_dereg_mr)               \
  X(ibv_cmd_destroy_ah)             \
  X(ibv_cmd_destroy_counters)       \
  X(ibv_cmd_destroy_cq)             \
  X(ibv_cmd_destroy_flow)           \
  X(ibv_cmd_destroy_flow_action)    \
  X(ibv_cmd_destroy_qp)             \
  X(ibv_cmd_destroy_rwq_ind_table)  \
  X(ibv_cmd_destroy_srq)            \
  X(ibv_cmd_destroy_wq)             \
  X(ibv_cmd_detach_mcast)           \
  X(ibv_cmd_free_dm)                \
  X(ibv_cmd_get_context)            \
  X(ibv_cmd_modify_cq)              \
  X(ibv_cmd_modify_flow_action_esp) \
  X(ibv_cmd_modify_qp)              \
  X(ibv_cmd_modify_qp_ex)           \
  X(ibv_cmd_modify_srq)             \
  X(ibv_cmd_modify_wq)              \
  X(ibv_cmd_open_qp)                \
  X(ibv_cmd_open_xrcd)              \
  X(ibv_cmd_post_recv)              \
  X(ibv_cmd_post_send)              \
  X(ibv_cmd_post_srq_recv)          \
  X(ibv_cmd_query_context)          \
  X(ibv_cmd_query_device_any)       \
  X(ibv_cmd_query_mr)               \
  X(ibv_cmd_query_port)             \
  X(ibv_cmd_query_qp)               \
  X(ibv_cmd_query_srq)              \
  X(ibv_cmd_read_counters)          \
  X(ibv_cmd_reg_dm_mr)              \
  X(ibv_cmd_reg_dmabuf_mr)          \
  X(ibv_cmd_reg_mr)                 \
  X(ibv_cmd_req_notify_cq)          \
  X(ibv_cmd_rereg_mr)               \
  X(ibv_cmd_resize_cq)

#define VERBENA_REFUSE(name) \
  VERBENA_EXPORT int name() { return EOPNOTSUPP; }
VERBENA_REFUSED_COMMANDS(VERBENA_REFUSE)
#undef VERBENA_REFUSE
#undef VERBENA_REFUSED_COMMANDS

// Functions that return something else. Two of the names are reserved ones, which isn't our doing.
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)

/// A count of completions, negative on failure.
VERBENA_EXPORT int ibv_cmd_poll_cq() { return -EOPNOTSUPP; }

VERBENA_EXPORT unsigned __ioctl_final_num_attrs() { return 0; }

VERBENA_EXPORT int ibv_read_ibdev_sysfs_file() {
  errno = EOPNOTSUPP;
  return -1;
}

VERBENA_EXPORT void* _verbs_init_and_alloc_context() {
  errno = EOPNOTSUPP;
  return nullptr;
}

VERBENA_EXPORT void* verbs_open_device() {
  errno = EOPNOTSUPP;
  return nullptr;
}

VERBENA_EXPORT void verbs_init_cq() {}

VERBENA_EXPORT void verbs_set_ops() {}

VERBENA_EXPORT void verbs_uninit_context() {}

VERBENA_EXPORT void verbs_register_driver_34() {}

VERBENA_EXPORT void __verbs_log() {}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

/// Whether providers forget objects whose device has vanished; from RDMAV_ALLOW_DISASSOC_DESTROY in
/// rdma-core. A pure datum, false by default.
extern "C" {
__attribute__((visibility("default"))) bool verbs_allow_disassociate_destroy = false;
}
