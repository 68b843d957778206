// Public verbs that this device does not offer. Each says so in the way that it reports errors, so
// that programs can try and do without.

#include "verbs/errors.h"

#include "verbs/abi.h"

using namespace verbena::verbs;

// Address handles and multicast: for unreliable datagrams.

VERBENA_EXPORT ibv_ah* ibv_create_ah(ibv_pd*, ibv_ah_attr*) { return unsupported_object(); }

VERBENA_EXPORT int ibv_init_ah_from_wc(ibv_context*, std::uint8_t, ibv_wc*, ibv_grh*,
                                       ibv_ah_attr*) {
  return minus_one(EOPNOTSUPP);
}

VERBENA_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd*, ibv_wc*, ibv_grh*, std::uint8_t) {
  return unsupported_object();
}

VERBENA_EXPORT int ibv_destroy_ah(ibv_ah*) { return EOPNOTSUPP; }

VERBENA_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, std::uint8_t*,
                                               std::uint16_t*) {
  return minus_one(EOPNOTSUPP);
}

VERBENA_EXPORT int ibv_attach_mcast(ibv_qp*, const ibv_gid*, std::uint16_t) { return EOPNOTSUPP; }

VERBENA_EXPORT int ibv_detach_mcast(ibv_qp*, const ibv_gid*, std::uint16_t) { return EOPNOTSUPP; }

// Shared receive queues.

VERBENA_EXPORT ibv_srq* ibv_create_srq(ibv_pd*, ibv_srq_init_attr*) { return unsupported_object(); }

VERBENA_EXPORT int ibv_modify_srq(ibv_srq*, ibv_srq_attr*, int) { return EOPNOTSUPP; }

VERBENA_EXPORT int ibv_query_srq(ibv_srq*, ibv_srq_attr*) { return EOPNOTSUPP; }

VERBENA_EXPORT int ibv_destroy_srq(ibv_srq*) { return EOPNOTSUPP; }

// Device memory.

VERBENA_EXPORT ibv_dm* ibv_import_dm(ibv_context*, std::uint32_t) { return unsupported_object(); }

VERBENA_EXPORT void ibv_unimport_dm(ibv_dm*) {}
