// A memory window of a program.
#pragma once

#include "nic_model/nic.h"
#include "verbs/context.h"
#include "verbs/errors.h"

namespace verbena::verbs {

struct MemoryWindow : ibv_mw, ObjectLink {
  [[nodiscard]] static MemoryWindow& of(ibv_mw* mw) { return static_cast<MemoryWindow&>(*mw); }
  [[nodiscard]] Context& owner() const { return Context::of(context); }
  /// Takes the window from the NIC.
  Result<void, nic::NicError> release();

  /// Null after release(): the context has been closed over it.
  nic::Mw* nic_mw = nullptr;
};

/// The binding of a window of type 2 that a work request asks for. EINVAL if the key has another
/// window's index, or rights that a window can't have.
[[nodiscard]] Result<WindowBinding, Errno> binding_of(const ibv_mw& mw, std::uint32_t rkey,
                                                      const ibv_mw_bind_info& info);

}  // namespace verbena::verbs
