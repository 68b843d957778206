// Finding what another context of the same device has: for the ibv_import_* verbs. A program must
// not destroy an object while it imports it; afterwards the NIC knows that it has users.
#pragma once

#include <cstdint>
#include <mutex>

#include "verbs/context.h"

namespace verbena::verbs {

/// The object with this handle in the lists `list` of all contexts that share the device; nullptr
/// if there is none. Handles mean nothing outside of the process.
template <class Object>
[[nodiscard]] Object* find_by_handle(SharedEngine& engine, ObjectList Context::* list,
                                     std::uint32_t handle) {
  for (Context* const context : engine.contexts()) {
    const std::lock_guard guard(context->objects_mutex);
    for (ObjectLink& link : context->*list) {
      auto& object = static_cast<Object&>(link);
      if (object.handle == handle) {
        return &object;
      }
    }
  }
  return nullptr;
}

}  // namespace verbena::verbs
