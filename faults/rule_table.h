// A fault rule from a TOML table: for files that have rules among other things.
#pragma once

#include <string>

#include "base/result.h"
#include "base/toml.h"
#include "faults/parse.h"
#include "faults/rule.h"

namespace verbena::faults {

/// What is wrong with a table, and where in its file.
struct TableError {
  toml::source_position position;
  std::string message;
};

[[nodiscard]] Result<Rule, TableError> rule_from_table(const toml::table& table,
                                                       const HostResolver& resolve);

}  // namespace verbena::faults
