// What it probably means when something fails, and what to look at: for the journal of failures and
// `verbena doctor`.
#pragma once

#include <string_view>

#include "proto/counters.h"
#include "proto/work.h"

namespace verbena::ports {

/// Why a request completes with this status; empty for success and for a flush, which follows from
/// another failure.
[[nodiscard]] std::string_view explain(WcStatus status);

/// What it means that a counter isn't zero; empty for those that count what is normal, or what a
/// network that loses makes normal.
[[nodiscard]] std::string_view explain(Counter counter);

}  // namespace verbena::ports
