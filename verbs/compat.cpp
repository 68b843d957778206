// What programs linked before 2008 ask for: the verbs of libibverbs 1.0, whose structs were others.
// No program of today's distributions imports them. They are here so that the set of symbols is
// whole, and they refuse.

#include <cerrno>

#include "verbs/abi.h"

// Verbs that return an errno value, or nothing.
#define VERBENA_OLD_VERBS(X) \
  X(ibv_ack_async_event)     \
  X(ibv_ack_cq_events)       \
  X(ibv_attach_mcast)        \
  X(ibv_close_device)        \
  X(ibv_dealloc_pd)          \
  X(ibv_dereg_mr)            \
  X(ibv_destroy_ah)          \
  X(ibv_destroy_cq)          \
  X(ibv_destroy_qp)          \
  X(ibv_destroy_srq)         \
  X(ibv_detach_mcast)        \
  X(ibv_free_device_list)    \
  X(ibv_get_async_event)     \
  X(ibv_get_cq_event)        \
  X(ibv_modify_qp)           \
  X(ibv_modify_srq)          \
  X(ibv_query_device)        \
  X(ibv_query_gid)           \
  X(ibv_query_pkey)          \
  X(ibv_query_port)          \
  X(ibv_query_qp)            \
  X(ibv_query_srq)           \
  X(ibv_resize_cq)

// Verbs that return an object, a list or a name; and the GUID, of which 0 is none.
#define VERBENA_OLD_CREATIONS(X) \
  X(ibv_alloc_pd)                \
  X(ibv_create_ah)               \
  X(ibv_create_cq)               \
  X(ibv_create_qp)               \
  X(ibv_create_srq)              \
  X(ibv_get_device_guid)         \
  X(ibv_get_device_list)         \
  X(ibv_get_device_name)         \
  X(ibv_open_device)             \
  X(ibv_reg_mr)

#define VERBENA_OLD_VERB(name)                                                                    \
  __attribute__((visibility("default"), symver(#name "@IBVERBS_1.0"))) int verbena_old_##name() { \
    errno = EOPNOTSUPP;                                                                           \
    return EOPNOTSUPP;                                                                            \
  }

// NOLINTBEGIN(bugprone-macro-parentheses): a pointer type, which it takes for a product.
#define VERBENA_OLD_CREATION(name)                                           \
  __attribute__((visibility("default"),                                      \
                 symver(#name "@IBVERBS_1.0"))) void* verbena_old_##name() { \
    errno = EOPNOTSUPP;                                                      \
    return nullptr;                                                          \
  }
// NOLINTEND(bugprone-macro-parentheses)

extern "C" {

VERBENA_OLD_VERBS(VERBENA_OLD_VERB)
VERBENA_OLD_CREATIONS(VERBENA_OLD_CREATION)

// The plug-in interface of the same age.
__attribute__((visibility("default"), symver("ibv_register_driver@IBVERBS_1.1"))) void
verbena_old_ibv_register_driver() {}

}  // extern "C"
