// A memory region of a program.
#pragma once

#include "nic_model/nic.h"
#include "verbs/context.h"

namespace verbena::verbs {

struct MemoryRegion : ibv_mr, ObjectLink {
  [[nodiscard]] static MemoryRegion& of(ibv_mr* mr) { return static_cast<MemoryRegion&>(*mr); }
  [[nodiscard]] Context& owner() const { return Context::of(context); }
  /// Takes the region from the NIC.
  Result<void, nic::NicError> release();

  /// Null after release(), when the context has been closed over it, and of an imported region.
  nic::Mr* nic_mr = nullptr;
};

}  // namespace verbena::verbs
