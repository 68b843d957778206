// Whether memory can be registered: the check that the kernel makes by pinning pages.
#pragma once

#include <cstddef>

#include "verbs/errors.h"

namespace verbena::verbs {

/// Brings all pages of [start, start + bytes) into memory, for reading or for writing as well.
/// EFAULT if a part of the range is not mapped or doesn't allow the access, EINVAL if the range is
/// empty or wraps around the end of the address space.
[[nodiscard]] Errno populate(void* start, std::size_t bytes, bool for_writing) noexcept;

}  // namespace verbena::verbs
