// What became of a received packet. Every check of the receive path has a name here; a packet that
// is refused says which check, what was expected and what came. "Answers in words" start here: the
// capture's comments, the trace and the command line are made from this value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proto/counters.h"

namespace verbena {

/// The checks of a received frame, in the order in which they are made: first those of the frame
/// and the port, then those of the responder (IBTA vol 1, 9.7.4) or of the requester.
enum class RxCheck : std::uint8_t {
  none,
  frame,
  icrc,
  address,
  opcode,
  qp,
  qp_state,
  service,
  pkey,
  qkey,
  peer,
  psn,
  opcode_sequence,
  opcode_allowed,
  resources,
  length,
  key,
  execute,
  response,
  /// Of TCP (iWARP).
  tcp_sequence,
};

[[nodiscard]] const char* name_of(RxCheck check) noexcept;

struct RxVerdict {
  enum class Kind : std::uint8_t {
    accepted,
    /// Seen before: not executed again, answered again.
    duplicate,
    /// Kept until what is missing before it comes (TCP).
    early,
    /// Refused, and the peer is told so: `syndrome` is what the AETH will carry.
    nak,
    /// Refused in silence: `counter` counts it.
    dropped,
  };

  Kind kind = Kind::accepted;
  RxCheck check = RxCheck::none;
  std::uint8_t syndrome = 0;
  std::optional<Counter> counter = std::nullopt;
  /// What the check wanted and what it met: PSNs, lengths, QPNs, opcodes, as the check implies.
  std::uint64_t expected = 0;
  std::uint64_t got = 0;

  [[nodiscard]] static RxVerdict drop(RxCheck check, Counter counter, std::uint64_t expected = 0,
                                      std::uint64_t got = 0) {
    return {.kind = Kind::dropped,
            .check = check,
            .counter = counter,
            .expected = expected,
            .got = got};
  }
};

/// One sentence: "dropped: PSN check, expected 0x123450, got 0x123452 (rx_drop_out_of_sequence)".
/// Empty for a packet that was simply accepted.
[[nodiscard]] std::string describe(const RxVerdict& verdict);

}  // namespace verbena
