// Between scattered registered memory and the contiguous payload of a packet.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "proto/memory_access.h"
#include "proto/work.h"

namespace verbena {

/// Checks all SGEs at once, before anything moves: a work request with one bad SGE moves nothing
/// (IBTA vol 1, 10.6.2: a protection error is one of the whole request).
[[nodiscard]] bool sges_permit(MemoryAccess& memory, PdId pd, std::span<const Sge> sges,
                               Access needed);

/// Copies bytes [offset, offset + to.size()) of the message that the SGEs describe into `to`. False
/// if a key doesn't hold (any more); `to` is then undefined.
[[nodiscard]] bool gather(MemoryAccess& memory, PdId pd, std::span<const Sge> sges,
                          std::uint64_t offset, MutableBytes to);

/// Copies `from` to offset `offset` of the message that the SGEs describe. False if a key doesn't
/// hold or the SGEs are too short.
[[nodiscard]] bool scatter(MemoryAccess& memory, PdId pd, std::span<const Sge> sges,
                           std::uint64_t offset, ByteView from);

/// Copies payload into the memory of an application that may be watching its last byte: bytes
/// become visible in ascending order, the last one last. Programs rely on it (ib_write_lat spins on
/// the last byte of its buffer) because PCIe hardware happens to behave so.
void place(std::byte* to, ByteView from);

}  // namespace verbena
