// What the lists of known differences share: those of packets (packet_rules.cpp) and those of what
// programs see (xcheck_accepted.cpp).
#pragma once

#include <fnmatch.h>

#include <string>

namespace verbena::cli {

/// The pattern that everything fits.
inline constexpr const char* any = "*";

/// A pattern as fnmatch(3) has it.
[[nodiscard]] inline bool fits(const char* pattern, const std::string& text) {
  return ::fnmatch(pattern, text.c_str(), 0) == 0;
}

/// Rules of which packets tell as well as completions. The kernel is 6.1.
namespace rxe_rule {

inline constexpr const char* event =
    "An invalid request or an access error at the responder is an event of its queue pair if there "
    "is no receive to complete (IBTA vol 1, 11.6.3; ibv_get_async_event(3)); rxe has none for this";
inline constexpr const char* too_long =
    "A message that is too long for its receive is an invalid request to its sender and a length "
    "error to its receiver (IBTA vol 1, 9.9.3, 11.6.2); to rxe it is an operation error at both "
    "ends";
inline constexpr const char* invalidate =
    "A key that can't be invalidated is an access error at both ends, which ends the connection "
    "(IBTA vol 1, 9.9.3); rxe acknowledges the message, so that the sender goes on, and its own "
    "program hears of an invalid request";

}  // namespace rxe_rule

}  // namespace verbena::cli
