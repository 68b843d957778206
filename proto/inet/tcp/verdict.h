// What became of a segment, in the words of all transports (proto/verdict.h).
#pragma once

#include <cstdint>

#include "proto/inet/tcp/connection.h"
#include "proto/verdict.h"

namespace verbena::inet {

/// `expected` and `got` are sequence numbers.
[[nodiscard]] RxVerdict verdict_of(TcpVerdict verdict, std::uint32_t expected, std::uint32_t got);

}  // namespace verbena::inet
