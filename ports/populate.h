// Whether memory is there: the check that the kernel makes for a real NIC, when it pins pages at
// registration and when it serves page faults of demand-paged regions.
#pragma once

#include <cstddef>

#include "nic_model/types.h"

namespace verbena::ports {

/// What is brought into memory at once; it takes some 20 ms.
inline constexpr std::size_t populated_bytes_max = std::size_t{64} << 20;

/// Brings all pages of [start, start + bytes) into memory, for reading or for writing as well. Of a
/// range above populated_bytes_max only the first and the last page of each mapping: pinning 8 GiB
/// takes a real NIC's driver seconds, in which a peer may give its connection up, and here nobody
/// needs them pinned. Returns 0, EFAULT if a part of the range is not mapped or doesn't allow the
/// access, EINVAL if the range is empty or wraps around the end of the address space.
[[nodiscard]] int populate(void* start, std::size_t bytes, bool for_writing) noexcept;

/// The pager of every device in this process.
[[nodiscard]] nic::Pager& process_pager() noexcept;

}  // namespace verbena::ports
