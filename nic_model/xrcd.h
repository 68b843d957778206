// An XRC domain as the Nic holds it. Private to nic_model/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "nic_model/nic.h"
#include "nic_model/srq.h"
#include "proto/ib_bth/xrc_domain.h"

namespace verbena::nic {

struct Xrcd final : ib::XrcDomain {
  Xrcd(Pd& pd_of_targets, Cq& cq_of_targets) : pd(pd_of_targets), cq(cq_of_targets) {}

  [[nodiscard]] std::optional<Target> find(Srqn number) const override {
    const auto found = srqs.find(to_value(number));
    if (found == srqs.end()) {
      return std::nullopt;
    }
    Srq& srq = *found->second;
    return Target{.queue = &srq.queue, .completions = srq.cq, .pd = srq.pd.id};
  }

  /// What a queue pair needs and a target doesn't have. Nothing ever completes in this CQ.
  Pd& pd;
  Cq& cq;
  std::map<std::uint32_t, Srq*> srqs;
};

}  // namespace verbena::nic
