// Applies fault rules to a stream of frames, in real time or simulated: sans-I/O, all chance from
// one seed. It decides; whoever moves frames carries the decision out:
//
//     const Decision decision = injector.decide(now, Direction::out, frame);
//     if (decision.is_lost()) ...
//
// Each rule draws from a generator of its own, so a rule added at the end changes no decision of
// those before it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/prng.h"
#include "base/time.h"
#include "faults/rule.h"

namespace verbena::faults {

/// What to do with one frame.
struct Decision {
  ActionKind kind = ActionKind::pass;
  /// Position of the rule that decided, from 0; nullopt: no rule took the frame.
  std::optional<std::size_t> rule = std::nullopt;
  /// delay: by how much; duplicate: time between copies.
  Duration delay{0};
  std::uint32_t copies = 0;
  /// reorder: frames that go first.
  std::uint32_t behind = 0;
  /// corrupt: the byte and what it is XORed with.
  std::size_t byte = 0;
  std::uint8_t mask = 0;
  bool fix_icrc = false;

  [[nodiscard]] bool is_lost() const { return kind == ActionKind::drop; }
};

/// The change that a `corrupt` or `mark` decision makes to a frame; nothing for the others.
void alter(const Decision& decision, MutableBytes frame);

/// What a rule has done so far.
struct RuleCounters {
  /// Frames that fitted, before skip, every, count and chance.
  std::uint64_t matched = 0;
  std::uint64_t taken = 0;
};

class FaultInjector {
 public:
  /// `start` is what the rules' time windows count from.
  FaultInjector(RuleSet rules, std::uint64_t seed, Time start);

  /// Asks the rules in order. `frame` is a whole Ethernet frame without FCS; any bytes will do.
  [[nodiscard]] Decision decide(Time now, Direction direction, ByteView frame);

  /// More rules, behind those there are; their time windows count from the same start.
  void add(RuleSet rules);

  [[nodiscard]] std::span<const Rule> rules() const { return rules_; }
  [[nodiscard]] std::span<const RuleCounters> counters() const { return counters_; }

  /// In words, for a comment in a capture: "dropped by rule 1 (drop opcode=WRITE_MIDDLE count=1)".
  /// Empty if no rule took the frame.
  [[nodiscard]] std::string describe(const Decision& decision) const;

 private:
  /// Packets whose PSNs are counted together.
  struct Flow {
    Gid source;
    Gid destination;
    Qpn qpn{};
    bool is_response = false;
    friend auto operator<=>(const Flow&, const Flow&) = default;
  };
  struct Facts;

  [[nodiscard]] Facts facts_of(Direction direction, ByteView frame);
  [[nodiscard]] bool fits(const Rule& rule, Time now, const Facts& facts) const;
  [[nodiscard]] bool takes(std::size_t index);
  [[nodiscard]] Decision carry_out(std::size_t index, const Facts& facts, ByteView frame);

  RuleSet rules_;
  std::vector<RuleCounters> counters_;
  std::vector<Prng> prngs_;
  std::uint64_t seed_;
  Time start_;
  std::map<Flow, Psn> first_psns_;
};

}  // namespace verbena::faults
