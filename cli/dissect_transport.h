// Dissection of a transport packet: BTH, extension headers, payload.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "cli/dissection.h"

namespace verbena::cli {

/// Adds the layers of `transport` (BTH to end of pad), which begins at `offset` of its frame, and
/// the line's words. `transport` has room for a BTH at least.
void dissect_transport(ByteView transport, std::size_t offset, Dissection& out);

}  // namespace verbena::cli
