// A shared receive queue as the Nic holds it. Private to nic_model/.
#pragma once

#include <cstdint>

#include "nic_model/nic.h"
#include "proto/recv_queue.h"

namespace verbena::nic {

struct Srq {
  Srq(Pd& pd_of_srq, const SrqInitAttr& init)
      : pd(pd_of_srq),
        cookie(init.cookie),
        queue(init.wr_max, init.sge_max),
        xrcd(init.xrcd),
        cq(init.cq) {}

  Pd& pd;
  const std::uintptr_t cookie;
  RecvQueue queue;
  /// Of one for XRC targets.
  Xrcd* const xrcd;
  Cq* const cq;
  Srqn number{};
  /// Queue pairs that take from it.
  std::uint32_t users = 0;
};

}  // namespace verbena::nic
