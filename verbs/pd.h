// A protection domain of a program.
#pragma once

#include "nic_model/nic.h"
#include "verbs/context.h"

namespace verbena::verbs {

struct ProtectionDomain : ibv_pd, ObjectLink {
  [[nodiscard]] static ProtectionDomain& of(ibv_pd* pd) {
    return static_cast<ProtectionDomain&>(*pd);
  }
  [[nodiscard]] Context& owner() const { return Context::of(context); }
  /// Takes the domain from the NIC.
  Result<void, nic::NicError> release();

  /// Null after release(): the context has been closed over it.
  nic::Pd* nic_pd = nullptr;
};

}  // namespace verbena::verbs
