// Device memory of a program.
#pragma once

#include <memory>

#include "nic_model/nic.h"
#include "verbs/context.h"

namespace verbena::verbs {

struct DeviceMemory : ibv_dm, ObjectLink {
  [[nodiscard]] static DeviceMemory& of(ibv_dm* dm) { return static_cast<DeviceMemory&>(*dm); }
  [[nodiscard]] Context& owner() const { return Context::of(context); }
  /// Takes the memory from the NIC; an imported one only gives its share back.
  Result<void, nic::NicError> release();

  /// Null after release(): the context has been closed over it.
  nic::DeviceMemory* nic_dm = nullptr;
  bool is_imported = false;
  /// In the child of a fork(): memory that no NIC knows of.
  std::unique_ptr<nic::DeviceMemory> orphan;
};

}  // namespace verbena::verbs
