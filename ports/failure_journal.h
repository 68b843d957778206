// What went wrong in the processes of a fabric, in words: `verbena doctor` tells it later, also of
// processes that have ended since. The journal lives as long as the fabric, so as long as one of
// its processes does, and holds the latest failures_max entries.
//
// Writers take no lock: each takes the next entry, and a reader sees by the entry's version whether
// it was written meanwhile. Two writers meet in one entry only if 64 failures fall into the moment
// in which one is written; that entry may be garbled, and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "ports/fabric.h"

namespace verbena::ports {

/// One failure, for people.
struct Failure {
  /// CLOCK_MONOTONIC.
  Time time{};
  std::int32_t pid = 0;
  /// Printable ASCII; what didn't fit into an entry is cut off.
  std::string sentence;

  friend bool operator==(const Failure&, const Failure&) = default;
};

/// Remembers a failure of this process. Cheap, any thread.
void note_failure(Fabric& fabric, Time now, std::string_view sentence);

/// The oldest first. Empty if the fabric doesn't exist. The error is a sentence.
[[nodiscard]] Result<std::vector<Failure>, std::string> read_failures(
    const std::string& fabric_path);

}  // namespace verbena::ports
