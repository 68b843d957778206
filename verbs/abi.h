// The verbs ABI as we define it: rdma-core's header, minus the macros that would rename our
// definitions, plus the mark of an exported function.
#pragma once

#include <infiniband/verbs.h>

// In a program these names are macros around inline functions; here they are the functions.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/// A function of the C ABI. libibverbs.map (or librdmacm.map) gives it its version.
#define VERBENA_EXPORT extern "C" __attribute__((visibility("default")))
