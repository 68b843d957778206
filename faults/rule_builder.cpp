#include "faults/rule_builder.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <vector>

#include "base/near_miss.h"
#include "faults/units.h"
#include "proto/roce/gid.h"

namespace verbena::faults {
namespace {

using Set = Result<void, std::string>;

constexpr std::array actions = {ActionKind::pass,      ActionKind::drop,    ActionKind::delay,
                                ActionKind::duplicate, ActionKind::corrupt, ActionKind::reorder,
                                ActionKind::mark};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return result;
}

std::unexpected<std::string> wrong(std::string_view value, std::string_view wanted) {
  return std::unexpected(fmt::format("'{}' isn't {}.", value, wanted));
}

/// `value` through a parser into `target`, or a sentence.
template <class Parse, class Target>
Set assign(std::string_view value, Parse parse, Target& target, std::string_view wanted) {
  const auto parsed = parse(value);
  if (!parsed) {
    return wrong(value, wanted);
  }
  target = *parsed;
  return {};
}

template <class Target>
Set assign_number(std::string_view value, std::uint64_t min, std::uint64_t max, Target& target) {
  const auto number = parse_number(value);
  if (!number || *number < min || *number > max) {
    return wrong(value, fmt::format("a number from {} to {}", min, max));
  }
  target = static_cast<Target>(*number);
  return {};
}

/// Does the identifier, without its service, fit the name, which may end in '*'?
bool name_fits(std::string_view identifier, std::string_view name) {
  const std::string_view operation = identifier.substr(identifier.find('_') + 1);
  if (name.ends_with('*')) {
    name.remove_suffix(1);
    return identifier.starts_with(name) || operation.starts_with(name);
  }
  return identifier == name || operation == name;
}

struct Named {
  std::bitset<256> opcodes;
  std::bitset<iwarp::segment_names.size()> segments;
};

/// What a name stands for, on either wire.
Result<Named, std::string> opcodes_named(std::string_view name) {
  Named named;
  const std::string wanted = lower(name);
  for (std::size_t i = 0; i < iwarp::segment_names.size(); ++i) {
    const std::string segment = lower(iwarp::segment_names[i].name);
    const bool fits = wanted.ends_with('*')
                          ? segment.starts_with(wanted.substr(0, wanted.size() - 1))
                          : segment == wanted;
    named.segments.set(i, fits);
  }
  for (const ib::Opcode opcode : ib::opcodes) {
    if (name_fits(ib::opcode_identifier(opcode), wanted)) {
      named.opcodes.set(static_cast<std::size_t>(opcode));
    }
  }
  if (named.opcodes.none() && named.segments.none()) {
    std::vector<std::string_view> known;
    for (const ib::Opcode opcode : ib::opcodes) {
      const auto identifier = ib::opcode_identifier(opcode);
      known.push_back(identifier);
      known.push_back(identifier.substr(identifier.find('_') + 1));
    }
    return std::unexpected(
        fmt::format("No opcode is named '{}'.{}", name, did_you_mean(wanted, known)));
  }
  return named;
}

Set set_opcodes(std::string_view value, Match& target) {
  target.opcodes.emplace();
  target.segments.reset();
  while (true) {
    const auto comma = value.find(',');
    const auto named = opcodes_named(value.substr(0, comma));
    if (!named) {
      return std::unexpected(named.error());
    }
    *target.opcodes |= named->opcodes;
    target.segments |= named->segments;
    if (comma == std::string_view::npos) {
      return {};
    }
    value.remove_prefix(comma + 1);
  }
}

Set set_psn(std::string_view value, std::optional<PsnRange>& target) {
  constexpr std::string_view wanted =
      "a PSN: 0x10, 0x10..0x1f, or +2 and +2..+5 counted from the first one";
  const auto dots = value.find("..");
  std::string_view first = value.substr(0, dots);
  std::string_view last = dots == std::string_view::npos ? first : value.substr(dots + 2);
  const bool relative = first.starts_with('+');
  if (relative != last.starts_with('+')) {
    return wrong(value, wanted);
  }
  if (relative) {
    first.remove_prefix(1);
    last.remove_prefix(1);
  }
  const auto a = parse_number(first);
  const auto b = parse_number(last);
  if (!a || !b || *a > Psn::mask || *b > Psn::mask) {
    return wrong(value, wanted);
  }
  target = PsnRange{.first = Psn(static_cast<std::uint32_t>(*a)),
                    .last = Psn(static_cast<std::uint32_t>(*b)),
                    .relative = relative};
  return {};
}

Set set_direction(std::string_view value, std::optional<Direction>& target) {
  if (value != "in" && value != "out") {
    return wrong(value, "a direction: in or out");
  }
  target = value == "in" ? Direction::in : Direction::out;
  return {};
}

Set set_aeth(std::string_view value, std::optional<ib::AethKind>& target) {
  const std::string name = lower(value);
  if (name == "ack") {
    target = ib::AethKind::ack;
  } else if (name == "nak") {
    target = ib::AethKind::nak;
  } else if (name == "rnr") {
    target = ib::AethKind::rnr_nak;
  } else {
    return wrong(value, "a kind of AETH: ack, nak or rnr");
  }
  return {};
}

Set set_host(std::string_view value, const HostResolver& resolve, std::optional<Gid>& target) {
  if (resolve) {
    target = resolve(value);
  }
  if (!target) {
    target = roce::gid_from_text(value);
  }
  return target ? Set{} : wrong(value, "a host or an IP address");
}

constexpr std::string_view a_time = "a time, such as 50us, 1.5ms or 2s";
constexpr std::uint64_t number_max = std::uint64_t{1} << 62;

/// Frames are held back or copied in memory: what one rule may ask for.
constexpr std::uint64_t copies_max = 1'000;
constexpr std::uint64_t behind_max = 1'000;

constexpr unsigned bit(ActionKind kind) { return 1U << static_cast<unsigned>(kind); }
constexpr unsigned any_action = ~0U;
constexpr unsigned corrupt_only = bit(ActionKind::corrupt);
constexpr unsigned delays = bit(ActionKind::delay) | bit(ActionKind::duplicate);

}  // namespace

std::string_view name_of(ActionKind kind) noexcept {
  switch (kind) {
    case ActionKind::pass:
      return "pass";
    case ActionKind::drop:
      return "drop";
    case ActionKind::delay:
      return "delay";
    case ActionKind::duplicate:
      return "duplicate";
    case ActionKind::corrupt:
      return "corrupt";
    case ActionKind::reorder:
      return "reorder";
    case ActionKind::mark:
      return "mark";
  }
  return "unknown";
}

struct RuleBuilder::Key {
  std::string_view name;
  /// Actions that take it, as bits.
  unsigned actions;
  Set (*set)(Rule& rule, std::string_view value, const HostResolver& resolve);
};

const RuleBuilder::Key RuleBuilder::keys[] = {
    {"direction", any_action,
     [](Rule& r, std::string_view v, const HostResolver&) {
       return set_direction(v, r.match.direction);
     }},
    {"from", any_action,
     [](Rule& r, std::string_view v, const HostResolver& resolve) {
       return set_host(v, resolve, r.match.source);
     }},
    {"to", any_action,
     [](Rule& r, std::string_view v, const HostResolver& resolve) {
       return set_host(v, resolve, r.match.destination);
     }},
    {"qp", any_action,
     [](Rule& r, std::string_view v, const HostResolver&) {
       return assign_number(v, 0, qpn_mask, r.match.qpn.emplace());
     }},
    {"opcode", any_action,
     [](Rule& r, std::string_view v, const HostResolver&) {
       return set_opcodes(v, r.match);
     }},
    {"aeth", any_action,
     [](Rule& r, std::string_view v, const HostResolver&) { return set_aeth(v, r.match.aeth); }},
    {"psn", any_action,
     [](Rule& r, std::string_view v, const HostResolver&) { return set_psn(v, r.match.psn); }},
    {"after", any_action,
     [](Rule& r, std::string_view v, const HostResolver&) {
       return assign(v, parse_duration, r.match.after, a_time);
     }},
    {"until", any_action,
     [](Rule& r, std::string_view v, const HostResolver&) {
       return assign(v, parse_duration, r.match.until, a_time);
     }},
    {"nth", any_action,
     [](Rule& r, std::string_view v, const HostResolver&) {
       r.match.count = 1;
       Set set = assign_number(v, 1, number_max, r.match.skip);
       r.match.skip -= set ? 1 : 0;
       return set;
     }},
    {"skip", any_action,
     [](Rule& r, std::string_view v, const HostResolver&) {
       return assign_number(v, 0, number_max, r.match.skip);
     }},
    {"every", any_action,
     [](Rule& r, std::string_view v, const HostResolver&) {
       return assign_number(v, 1, number_max, r.match.every);
     }},
    {"count", any_action,
     [](Rule& r, std::string_view v, const HostResolver&) {
       return assign_number(v, 1, number_max, r.match.count);
     }},
    {"chance", any_action,
     [](Rule& r, std::string_view v, const HostResolver&) {
       return assign(v, parse_ratio, r.match.chance, "a probability, such as 1%, 1/8 or 0.125");
     }},
    {"by", delays,
     [](Rule& r, std::string_view v, const HostResolver&) {
       return assign(v, parse_duration, r.action.delay, a_time);
     }},
    {"jitter", bit(ActionKind::delay),
     [](Rule& r, std::string_view v, const HostResolver&) {
       return assign(v, parse_duration, r.action.jitter, a_time);
     }},
    {"copies", bit(ActionKind::duplicate),
     [](Rule& r, std::string_view v, const HostResolver&) {
       return assign_number(v, 1, copies_max, r.action.copies);
     }},
    {"behind", bit(ActionKind::reorder),
     [](Rule& r, std::string_view v, const HostResolver&) {
       return assign_number(v, 1, behind_max, r.action.behind);
     }},
    {"byte", corrupt_only,
     [](Rule& r, std::string_view v, const HostResolver&) {
       return v == "random" ? Set{} : assign_number(v, 0, 0xFFFF, r.action.byte.emplace());
     }},
    {"mask", corrupt_only,
     [](Rule& r, std::string_view v, const HostResolver&) {
       return v == "random" ? Set{} : assign_number(v, 1, 0xFF, r.action.mask.emplace());
     }},
    {"icrc", corrupt_only,
     [](Rule& r, std::string_view v, const HostResolver&) {
       r.action.fix_icrc = v == "fix";
       return v == "fix" || v == "keep" ? Set{} : wrong(v, "keep or fix");
     }},
};

Result<void, std::string> RuleBuilder::set_action(std::string_view name) {
  std::vector<std::string_view> known;
  for (const ActionKind kind : actions) {
    if (name == name_of(kind)) {
      rule_.action.kind = kind;
      has_action_ = true;
      return {};
    }
    known.push_back(name_of(kind));
  }
  return std::unexpected(fmt::format(
      "No action is named '{}': it is one of pass, drop, delay, duplicate, corrupt, reorder, "
      "mark.{}",
      name, did_you_mean(name, known)));
}

Result<void, std::string> RuleBuilder::set(std::string_view key, std::string_view value) {
  std::vector<std::string_view> known;
  std::uint64_t mark = 1;
  for (const Key& row : keys) {
    if (row.name == key) {
      if ((keys_seen_ & mark) != 0) {
        return std::unexpected(fmt::format("'{}' is given twice.", key));
      }
      keys_seen_ |= mark;
      return row.set(rule_, value, resolve_);
    }
    known.push_back(row.name);
    mark <<= 1;
  }
  return std::unexpected(
      fmt::format("A fault rule has no key '{}'.{}", key, did_you_mean(key, known)));
}

Result<Rule, std::string> RuleBuilder::finish(std::string text) {
  if (!has_action_) {
    return std::unexpected("The action is missing: drop, delay, duplicate, corrupt, ...");
  }
  std::uint64_t mark = 1;
  for (const Key& row : keys) {
    if ((keys_seen_ & mark) != 0 && (row.actions & bit(rule_.action.kind)) == 0) {
      return std::unexpected(
          fmt::format("'{}' has no meaning for {}.", row.name, name_of(rule_.action.kind)));
    }
    mark <<= 1;
  }
  if (rule_.action.kind == ActionKind::delay &&
      rule_.action.delay + rule_.action.jitter == Duration::zero()) {
    return std::unexpected("A delay needs a time: by=50us.");
  }
  if (rule_.match.after >= rule_.match.until) {
    return std::unexpected("The rule never holds: 'after' isn't before 'until'.");
  }
  rule_.text = std::move(text);
  return std::move(rule_);
}

}  // namespace verbena::faults
