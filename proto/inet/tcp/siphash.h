// SipHash-2-4 (Aumasson and Bernstein, 2012): a hash that nobody can compute who doesn't have the
// key, for what strangers see and shall not foretell.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace verbena::inet {

struct SipKey {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

[[nodiscard]] std::uint64_t siphash(const SipKey& key, ByteView bytes);

}  // namespace verbena::inet
