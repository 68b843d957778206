// How a transport reaches registered memory. The memory table of nic_model/ implements it; a test
// may implement it with a vector.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "base/result.h"

namespace verbena {

/// Access rights, with the bit values of ibv_access_flags.
enum class Access : std::uint32_t {
  none = 0,
  local_write = 1U << 0,
  remote_write = 1U << 1,
  remote_read = 1U << 2,
  remote_atomic = 1U << 3,
  mw_bind = 1U << 4,
  zero_based = 1U << 5,
  on_demand = 1U << 6,
  huge_tlb = 1U << 7,
  relaxed_ordering = 1U << 20,
};

[[nodiscard]] constexpr Access operator|(Access a, Access b) {
  return Access{to_value(a) | to_value(b)};
}
/// All of `needed` is in `granted`.
[[nodiscard]] constexpr bool allows(Access granted, Access needed) {
  return (to_value(granted) & to_value(needed)) == to_value(needed);
}

/// Why an access was refused, for the trace: on the wire all of them are one NAK.
enum class AccessFault : std::uint8_t { unknown_key, wrong_pd, not_permitted, out_of_range };

[[nodiscard]] const char* name_of(AccessFault fault) noexcept;

class MemoryAccess {
 public:
  virtual ~MemoryAccess() = default;

  /// Checks key, protection domain, rights and range, in that order, and gives the host memory of
  /// [va, va + length), which is contiguous. `length` may be 0. The pointer is valid until the
  /// next command that changes registrations: use it at once, don't keep it.
  [[nodiscard]] virtual Result<std::byte*, AccessFault> local(PdId pd, Lkey key, Va va,
                                                              std::uint64_t length,
                                                              Access needed) = 0;
  [[nodiscard]] virtual Result<std::byte*, AccessFault> remote(PdId pd, Rkey key, Va va,
                                                               std::uint64_t length,
                                                               Access needed) = 0;
};

}  // namespace verbena
