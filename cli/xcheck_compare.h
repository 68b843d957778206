// What two runs of the conformance program observed, side by side.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "cli/xcheck_matrix.h"

namespace verbena::cli {

/// Names an observation: which case, at which step, of what.
struct ObservationName {
  std::string test_case;
  std::string step;
  std::string field;

  auto operator<=>(const ObservationName&) const = default;
};

/// In the order in which they were made.
struct Observations {
  std::vector<ObservationName> order;
  std::map<ObservationName, std::string> values;
};

/// Of a file of JSON lines (lab/conformance/report.h). The error is a sentence.
[[nodiscard]] Result<Observations, std::string> read_observations(const std::string& path);

/// An observation that isn't the same on both.
struct Difference {
  ObservationName name;
  /// Empty where one has not made the observation.
  std::string ours;
  std::string theirs;
  /// Why it may be; empty if nobody said so (cli/xcheck_accepted.h).
  std::string rule;
};

struct Comparison {
  /// All that either observed, in order.
  std::vector<std::string> test_cases;
  std::size_t same = 0;
  std::vector<Difference> accepted;
  std::vector<Difference> unexplained;
};

[[nodiscard]] Comparison compare(const Observations& ours, const Observations& theirs);

/// In words, or as JSON. With `all`, each accepted difference; else each rule, and how often.
void print_comparison(const Comparison& comparison, bool all);
void print_comparison_json(const Comparison& comparison);

/// For CI (write_junit()): a cell for each case, with its first difference that nobody explains.
[[nodiscard]] Matrix as_matrix(const Comparison& comparison);

}  // namespace verbena::cli
