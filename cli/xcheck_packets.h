// `verbena xcheck --packets`: scenarios with a scripted peer, aimed at a real device; its answers
// beside those of ours in virtual time.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/answer_compare.h"

namespace verbena::cli {

struct PacketPlan {
  /// "rxe" (in the guest) or "self" (ours, in another process).
  std::string against;
  /// Scenario files, or folders of them.
  std::vector<std::string> files;
  /// Part of the names of the scenarios to run; all if empty.
  std::string only;
  /// Of our device, if it is the one that the packets are for.
  std::vector<std::pair<std::string, std::string>> variables;
};

/// What came of a scenario, or of a row of its sweep.
struct PacketCheck {
  /// The file without folder and ending, and the row: "opcode_sequence [first=...]".
  std::string name;
  std::string title;
  /// "agrees", "differs", "known" (a difference with a rule), "failed" (the device couldn't be
  /// asked) or "unsuited" (no script for another device).
  std::string result;
  struct Difference {
    AnswerDifference difference;
    /// Empty if there is none.
    std::string rule;
  };
  std::vector<Difference> differences;
  /// All that both did, unless the device couldn't be asked.
  AnswerWords ours;
  AnswerWords theirs;
  /// Of "failed" and "unsuited": why.
  std::string words;
};

/// Runs all of them. The error is sentences. Throws Interrupted (child.h).
[[nodiscard]] Result<std::vector<PacketCheck>, std::string> check_packets(const PacketPlan& plan);

/// Prints, writes FILE if `junit` isn't empty, and returns the exit status of the command.
[[nodiscard]] int report_packets(const std::vector<PacketCheck>& checks, const PacketPlan& plan,
                                 bool is_json, const std::string& junit);

}  // namespace verbena::cli
