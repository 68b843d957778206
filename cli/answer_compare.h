// What two devices answered to the same script, compared: packets, completions, events, state and
// memory, each in words, and where they differ.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "sim/scenario/packet_script.h"

namespace verbena::cli {

/// A device's answers in words, a line for each; in each list, order counts.
struct AnswerWords {
  std::vector<std::string> packets;
  std::vector<std::string> completions;
  std::vector<std::string> events;
  std::vector<std::string> state;
  std::vector<std::string> memory;
};

/// `qpn` is the device's, which it alone chooses. Not told, because either is right: MigReq,
/// AckReq of READs and atomics, and what the 40 bytes in front of a datagram hold.
[[nodiscard]] AnswerWords in_words(const sim::PacketScript& script,
                                   const sim::DeviceAnswers& answers, Qpn qpn);

/// A place where two lists differ: the lines that each has there, "; " between them, or "nothing".
struct AnswerDifference {
  /// "packets", "completions", "events", "state" or "memory"; "device" if it didn't survive.
  std::string what;
  std::string ours;
  std::string theirs;
};

/// In the order of the lists, the least number of lines.
[[nodiscard]] std::vector<AnswerDifference> differences(const AnswerWords& ours,
                                                        const AnswerWords& theirs);

}  // namespace verbena::cli
