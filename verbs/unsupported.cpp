// Public verbs that this device does not offer. Each says so in the way that it reports errors, so
// that programs can try and do without.

#include "verbs/errors.h"

#include "verbs/abi.h"

using namespace verbena::verbs;

// Shared receive queues.

VERBENA_EXPORT ibv_srq* ibv_create_srq(ibv_pd*, ibv_srq_init_attr*) { return unsupported_object(); }

VERBENA_EXPORT int ibv_modify_srq(ibv_srq*, ibv_srq_attr*, int) { return EOPNOTSUPP; }

VERBENA_EXPORT int ibv_query_srq(ibv_srq*, ibv_srq_attr*) { return EOPNOTSUPP; }

VERBENA_EXPORT int ibv_destroy_srq(ibv_srq*) { return EOPNOTSUPP; }

// Device memory.

VERBENA_EXPORT ibv_dm* ibv_import_dm(ibv_context*, std::uint32_t) { return unsupported_object(); }

VERBENA_EXPORT void ibv_unimport_dm(ibv_dm*) {}
