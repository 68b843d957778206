// An XRC domain of a program. Contexts that open the same file share one (ibv_open_xrcd(3)): within
// the process, of which the NIC is a part.
#pragma once

#include <sys/types.h>

#include "nic_model/nic.h"
#include "verbs/context.h"

namespace verbena::verbs {

struct XrcDomain : ibv_xrcd, ObjectLink {
  [[nodiscard]] static XrcDomain& of(ibv_xrcd* xrcd) { return static_cast<XrcDomain&>(*xrcd); }
  [[nodiscard]] Context& owner() const { return Context::of(context); }
  /// Takes the domain from the NIC, if nobody else has it open.
  Result<void, nic::NicError> release();

  /// Null after release(): closed, or the context has been closed over it.
  nic::Xrcd* nic_xrcd = nullptr;
  /// The file that names the domain; `is_named` is false for a domain of its own.
  bool is_named = false;
  dev_t file_device = 0;
  ino_t file_number = 0;
};

}  // namespace verbena::verbs
