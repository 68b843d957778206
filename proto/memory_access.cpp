#include "proto/memory_access.h"

namespace verbena {

const char* name_of(AccessFault fault) noexcept {
  switch (fault) {
    case AccessFault::unknown_key:
      return "unknown key";
    case AccessFault::wrong_pd:
      return "key of another protection domain";
    case AccessFault::wrong_qp:
      return "window of another queue pair";
    case AccessFault::not_permitted:
      return "access right not granted";
    case AccessFault::out_of_range:
      return "out of the registered range";
    case AccessFault::not_present:
      return "page not mapped";
    case AccessFault::wrong_window:
      return "window of another type or state";
  }
  return "unknown fault";
}

}  // namespace verbena
