// Fault rules: which frames are meant, and what happens to them. A rule is plain data; injector.h
// applies rules to frames, parse.h reads them from text. Read first: docs/scenarios.md, "Faults".
//
//     drop   opcode=WRITE_MIDDLE count=1        the first WRITE Middle is lost
//     delay  direction=in by=50us chance=1%     one frame of a hundred comes 50 us late
//     │      └──────────────┬─────────────┘
//     action             matches, and how the action is done
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/prng.h"
#include "base/time.h"
#include "proto/gid.h"
#include "proto/ib_bth/aeth.h"
#include "proto/ib_bth/opcode.h"
#include "proto/iwarp/glimpse.h"

namespace verbena::faults {

/// Seen from where the rules are applied. On a simulated link every frame goes `out` of its sender.
enum class Direction : std::uint8_t { out, in };

/// A packet sequence number range, both ends inclusive, either as on the wire or counted from the
/// first PSN of the frame's flow (its addresses, destination QP and role): 0 is that first PSN.
struct PsnRange {
  Psn first;
  Psn last;
  bool relative = false;
};

/// Which frames a rule means. What is absent matches everything; all that is present must hold.
/// Frames that are neither RoCE nor iWARP match only if nothing about transport headers is asked.
struct Match {
  std::optional<Direction> direction;
  std::optional<Gid> source;
  std::optional<Gid> destination;
  /// Destination QP.
  std::optional<Qpn> qpn;
  /// By opcode byte, and for segments of iWARP by their place in segment_names: one of the FPDUs
  /// that begin with the segment, as far as they can be told. Both are set together.
  std::optional<std::bitset<256>> opcodes;
  std::bitset<iwarp::segment_names.size()> segments;
  /// Packets that carry an AETH of that kind.
  std::optional<ib::AethKind> aeth;
  std::optional<PsnRange> psn;
  /// The window of time in which the rule holds, counted from the injector's start: [after, until).
  Duration after{0};
  Duration until = Duration::max();
  /// Of the frames for which all of the above holds: how many to let by first, then each which-th
  /// to take, and how many to take in all.
  std::uint64_t skip = 0;
  std::uint64_t every = 1;
  std::uint64_t count = std::numeric_limits<std::uint64_t>::max();
  /// Drawn last, for frames that would be taken.
  Ratio chance{1, 1};
};

enum class ActionKind : std::uint8_t {
  /// Let go unharmed, also by later rules.
  pass,
  drop,
  /// Delivered later by `delay` and up to `jitter` more; frames behind may overtake.
  delay,
  /// Delivered, and then `copies` times more, each `delay` after the one before.
  duplicate,
  /// One byte is changed: XORed with `mask`.
  corrupt,
  /// Held back until `behind` frames of the same flow of frames (link or port) have passed.
  reorder,
  /// Marked "congestion experienced" (RFC 3168, 5), as a congested switch does.
  mark,
};

[[nodiscard]] std::string_view name_of(ActionKind kind) noexcept;

struct Action {
  ActionKind kind = ActionKind::drop;
  Duration delay{0};
  Duration jitter{0};
  std::uint32_t copies = 1;
  std::uint32_t behind = 1;
  /// corrupt: offset in the Ethernet frame; absent: drawn, behind the network headers.
  std::optional<std::size_t> byte;
  /// corrupt: never 0; absent: one bit, drawn.
  std::optional<std::uint8_t> mask;
  /// corrupt: the ICRC is computed anew, so that the change reaches the transport.
  bool fix_icrc = false;
};

struct Rule {
  Match match;
  Action action;
  /// How it was written, for reports and comments in captures.
  std::string text;
};

/// Rules in the order in which they are asked: the first that takes a frame decides.
using RuleSet = std::vector<Rule>;

}  // namespace verbena::faults
