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
  flush_global = 1U << 8,
  flush_persistent = 1U << 9,
  relaxed_ordering = 1U << 20,
};

[[nodiscard]] constexpr Access operator|(Access a, Access b) {
  return Access{to_value(a) | to_value(b)};
}
/// What is in `from` and not in `taken`.
[[nodiscard]] constexpr Access without(Access from, Access taken) {
  return Access{to_value(from) & ~to_value(taken)};
}
/// All of `needed` is in `granted`.
[[nodiscard]] constexpr bool allows(Access granted, Access needed) {
  return (to_value(granted) & to_value(needed)) == to_value(needed);
}

/// Why an access was refused, for the trace: on the wire all of them are one NAK.
enum class AccessFault : std::uint8_t {
  unknown_key,
  wrong_pd,
  /// The window is bound to another queue pair.
  wrong_qp,
  not_permitted,
  out_of_range,
  /// The memory is demand-paged, and there is no page.
  not_present,
  /// The window is bound already, or is of a type that can't be treated so.
  wrong_window,
};

[[nodiscard]] const char* name_of(AccessFault fault) noexcept;

/// The queue pair through which a peer reaches memory.
struct MemoryUser {
  PdId pd{};
  Qpn qpn{};
};

/// Binds a memory window to a part of a region (IBTA vol 1, 10.6.7.2.4).
struct WindowBinding {
  /// The key that the window will have: its index is the window's, its low eight bits are free.
  Rkey key{};
  Lkey region{};
  Va addr{};
  /// 0 ends the binding of a window of type 1.
  std::uint64_t length = 0;
  /// Remote rights; zero_based: peers name the window's bytes from 0 on.
  Access access = Access::none;
};

/// What a FLUSH does with the bytes that were written before it (IBTA vol 1, annex A19.4.1).
struct Flush {
  /// Whoever reads the memory sees them.
  bool global_visibility = false;
  /// They outlive a loss of power.
  bool persistence = false;
  /// All that the key opens, not a range.
  bool whole = false;
  /// Of a range.
  std::uint32_t length = 0;
};

/// The rights that a FLUSH needs, of the queue pair and of the memory.
[[nodiscard]] constexpr Access access_needed(const Flush& flush) {
  return (flush.global_visibility ? Access::flush_global : Access::none) |
         (flush.persistence ? Access::flush_persistent : Access::none);
}

/// No more than this is asked for at once by local() and remote(): the payload of a packet, or of
/// an FPDU, whose length has 16 bits (RFC 5044, 4.3).
inline constexpr std::uint64_t memory_piece_bytes_max = 1U << 16;

class MemoryAccess {
 public:
  virtual ~MemoryAccess() = default;

  /// Checks key, protection domain, rights and range, in that order, and gives the host memory of
  /// [va, va + length), which is contiguous. `length` is at most memory_piece_bytes_max and may be
  /// 0. The pointer is valid until the next command that changes registrations: use it at once,
  /// don't keep it.
  [[nodiscard]] virtual Result<std::byte*, AccessFault> local(PdId pd, Lkey key, Va va,
                                                              std::uint64_t length,
                                                              Access needed) = 0;
  [[nodiscard]] virtual Result<std::byte*, AccessFault> remote(const MemoryUser& user, Rkey key,
                                                               Va va, std::uint64_t length,
                                                               Access needed) = 0;

  /// The same checks for all of a message, of any length. Whether demand-paged memory has its pages
  /// is only found out by those above.
  [[nodiscard]] virtual Result<void, AccessFault> check_local(PdId pd, Lkey key, Va va,
                                                              std::uint64_t length,
                                                              Access needed) = 0;
  [[nodiscard]] virtual Result<void, AccessFault> check_remote(const MemoryUser& user, Rkey key,
                                                               Va va, std::uint64_t length,
                                                               Access needed) = 0;

  /// Binds a window. One of type 2 belongs to the queue pair from then on.
  [[nodiscard]] virtual Result<void, AccessFault> bind(const MemoryUser& user,
                                                       const WindowBinding& binding) = 0;
  /// Ends the binding of a window of type 2: its key opens nothing any more.
  [[nodiscard]] virtual Result<void, AccessFault> invalidate(const MemoryUser& user, Rkey key) = 0;

  /// Carries out a FLUSH of [va, va + flush.length), or of all that the key opens, after the checks
  /// of remote().
  [[nodiscard]] virtual Result<void, AccessFault> flush(const MemoryUser& user, Rkey key, Va va,
                                                        const Flush& flush) = 0;
};

}  // namespace verbena
