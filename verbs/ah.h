// An address handle of a program.
#pragma once

#include "nic_model/nic.h"
#include "verbs/context.h"

namespace verbena::verbs {

struct AddressHandleObject : ibv_ah, ObjectLink {
  [[nodiscard]] static AddressHandleObject& of(ibv_ah* ah) {
    return static_cast<AddressHandleObject&>(*ah);
  }
  [[nodiscard]] Context& owner() const { return Context::of(context); }
  /// Takes the handle from the NIC.
  void release();

  /// Null after release(): the context has been closed over it.
  nic::Ah* nic_ah = nullptr;
};

[[nodiscard]] nic::AddressVector address_vector_from(const ibv_ah_attr& attr);
[[nodiscard]] ibv_ah_attr address_vector_to(const nic::AddressVector& av);

}  // namespace verbena::verbs
