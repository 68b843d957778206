// A frame in memory of its own around a packet that is there already: for scripted peers, which are
// no NICs. A NIC builds a packet where the frame has it (encap.h).
#pragma once

#include <cstddef>
#include <vector>

#include "base/bytes.h"
#include "proto/roce/encap.h"

namespace verbena::roce {

/// The Ethernet frame, without FCS and without padding, around `transport`: the bytes from the BTH
/// to the end of the pad, at least a BTH and at most transport_bytes_max. With `has_bad_icrc` one
/// bit of the ICRC is wrong.
[[nodiscard]] std::vector<std::byte> whole_frame(const Path& path, ByteView transport,
                                                 bool has_bad_icrc);

}  // namespace verbena::roce
