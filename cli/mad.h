// Management datagrams on QP1: which message it is, and the fields of those of the connection
// manager.
#pragma once

#include <cstddef>
#include <string>

#include "base/bytes.h"
#include "cli/dissection.h"

namespace verbena::cli {

/// Adds the MAD that a UD packet to QP1 carries, at `offset` of its frame, as a layer, and returns
/// what to call it: "CM ConnectRequest". Empty if there is no MAD.
std::string dissect_mad(ByteView mad, std::size_t offset, Dissection& out);

}  // namespace verbena::cli
