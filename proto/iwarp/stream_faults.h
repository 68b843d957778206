// What is wrong with an access that a peer asks for, in RDMAP's words (RFC 5040, 8.2).
#pragma once

#include <cstdint>

#include "proto/iwarp/terminate.h"
#include "proto/memory_access.h"

namespace verbena::iwarp {

/// What RDMAP says of a READ or atomic request that has no right to its memory.
[[nodiscard]] constexpr TerminateReason source_reason(AccessFault fault) {
  switch (fault) {
    case AccessFault::unknown_key:
    case AccessFault::wrong_window:
      return TerminateReason::rdmap_stag;
    case AccessFault::wrong_pd:
    case AccessFault::wrong_qp:
      return TerminateReason::rdmap_stag_not_associated;
    case AccessFault::not_permitted:
      return TerminateReason::rdmap_access;
    case AccessFault::out_of_range:
      return TerminateReason::rdmap_bounds;
    case AccessFault::not_present:
      return TerminateReason::rdmap_catastrophic_stream;
  }
  return TerminateReason::rdmap_stag;
}

/// A range that goes across the end of all addresses.
[[nodiscard]] constexpr bool wraps(std::uint64_t offset, std::uint64_t bytes) {
  return bytes != 0 && offset + (bytes - 1) < offset;
}

}  // namespace verbena::iwarp
