// The ABI of librdmacm.so.1: rdma-core's header, and what each function returns.
#pragma once

#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cerrno>
#include <exception>
#include <utility>

#include "verbs/abi.h"
#include "verbs/errors.h"

namespace verbena::rdma_cm {

/// A positive errno value; 0 is success.
using verbs::Errno;

/// 0, or -1 and errno: what almost every function of the ABI returns.
inline int status(Errno error) {
  if (error == 0) {
    return 0;
  }
  errno = error;
  return -1;
}

/// Runs a function that returns an Errno. What our code may throw is that memory ran out: no
/// exception crosses the C ABI. Not noexcept, for a thread that is cancelled in it while it waits
/// unwinds through it.
template <class Function>
int guarded(Function&& function) {
  try {
    return status(std::forward<Function>(function)());
  } catch (const std::exception&) {
    return status(ENOMEM);
  }
}

}  // namespace verbena::rdma_cm
