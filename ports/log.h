// Messages for the user on standard error: only when something is wrong that he should know of.
#pragma once

#include <string_view>

namespace verbena::ports {

/// Writes "verbena: <sentence>" and a line feed to standard error, with one system call.
/// VERBENA_LOG=off silences it. Any thread may call it.
void report(std::string_view sentence);

}  // namespace verbena::ports
