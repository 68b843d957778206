// CHECK: our own bugs. A condition that only a defect of Verbena can make false ends the process
// with a message, in every build. What a peer, a file or a caller can cause is never a CHECK; it
// is a Result or a value (docs/ARCHITECTURE.md, "Three kinds of failure").
#pragma once

namespace verbena {

/// Prints "CHECK failed: ..." with the place to stderr and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace verbena

#define VERBENA_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::verbena::check_failed(#condition, __FILE__, __LINE__))
