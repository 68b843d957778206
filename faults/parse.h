// Fault rules from text: the words of a command line and the tables of a TOML file, which have the
// same keys.
//
//     drop opcode=WRITE_MIDDLE count=1            [[fault]]
//                                                 action = "drop"
//                                                 opcode = "WRITE_MIDDLE"
//                                                 count = 1
//
// Keys of a match:
//     direction=in|out  from=HOST  to=HOST  qp=QPN  opcode=NAME[,NAME]  aeth=ack|nak|rnr
//     psn=N|A..B|+N|+A..+B  after=TIME  until=TIME
//     nth=N  skip=N  every=N  count=N  chance=1%|1/8|0.125
// Keys of an action:
//     by=TIME  jitter=TIME  copies=N  behind=N  byte=N|random  mask=N|random  icrc=keep|fix
//
// An opcode's name is that of the table in proto/ib_bth/opcode.h, in any case, with the service in
// front ("rc_write_middle") or without ("WRITE_MIDDLE": every service that has it); a * at its end
// stands for anything ("WRITE_*").
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "faults/rule.h"

namespace verbena::faults {

/// What is wrong with a rule, and where in its text: a byte offset from 0.
struct RuleError {
  std::size_t offset = 0;
  std::string message;
};

/// Tells the address behind a host's name. Names that it doesn't know are read as IP addresses.
using HostResolver = std::function<std::optional<Gid>(std::string_view)>;

/// One rule as words: an action and then key=value, separated by blanks.
[[nodiscard]] Result<Rule, RuleError> parse_rule(std::string_view text,
                                                 const HostResolver& resolve = {});

/// The error with the rule and a mark under the place, two lines and the message.
[[nodiscard]] std::string explain(std::string_view text, const RuleError& error);

/// The rules of a TOML text: an array of tables `fault`, and nothing else. Errors begin with
/// "<file_name>:<line>:<column>: ".
[[nodiscard]] Result<RuleSet, std::string> parse_rules_file(std::string_view toml,
                                                            std::string_view file_name,
                                                            const HostResolver& resolve = {});

/// The short forms of a command line: --loss 1%, --duplicate 0.1%, --reorder 1/50, --corrupt 1%.
/// `action` is one of drop, duplicate, reorder, corrupt.
[[nodiscard]] Result<Rule, RuleError> rate_rule(ActionKind action, std::string_view chance);
/// --delay 50us: every frame that arrives is late by that much.
[[nodiscard]] Result<Rule, RuleError> delay_rule(std::string_view duration);

}  // namespace verbena::faults
