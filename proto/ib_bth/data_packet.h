// How a SEND or WRITE is cut into packets, the same for all services (IBTA vol 1, 9.7.2): every
// packet but the last carries a path MTU of data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "proto/ib_bth/emit.h"
#include "proto/ib_bth/opcode.h"
#include "proto/memory_access.h"
#include "proto/send_queue.h"
#include "proto/work.h"

namespace verbena::ib {

/// Packets that `bytes` take; a message without data is a packet, too.
[[nodiscard]] constexpr std::uint32_t packets_of(std::uint64_t bytes, std::uint32_t mtu_bytes) {
  return std::max<std::uint32_t>(1,
                                 static_cast<std::uint32_t>((bytes + mtu_bytes - 1) / mtu_bytes));
}

/// Where one packet of a message lies in it.
struct DataSlice {
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
  bool first = false;
  bool last = false;
};
/// The slice of packet number `packet` of a message.
[[nodiscard]] DataSlice slice_of(std::uint64_t message_bytes, std::uint32_t packet,
                                 std::uint32_t mtu_bytes);

/// The opcode of another service with the same operation.
[[nodiscard]] constexpr Opcode with_service(Service service, Opcode rc) {
  // The operation is the low five bits, the same for all services.
  constexpr unsigned operation_bits = 5;
  return Opcode(static_cast<unsigned>(service) << operation_bits | static_cast<unsigned>(rc));
}

/// The opcode of a packet of a SEND, WRITE or ATOMIC WRITE.
[[nodiscard]] Opcode data_opcode(Service service, WrOpcode opcode, const DataSlice& slice);

/// Adds what follows from the request: the extension headers of its operation, and whether its
/// completion is solicited.
void add_data_fields(PacketFields& fields, const SendWqe& wqe, const DataSlice& slice);

/// Writes the packet to `packet`, which has transport_size(fields.opcode, slice.bytes): headers,
/// the request's data (inline or gathered from memory of `pd`), pad. False if a key doesn't hold
/// any more.
[[nodiscard]] bool write_data_packet(MemoryAccess& memory, PdId pd, const SendQueue& queue,
                                     std::uint64_t index, const DataSlice& slice,
                                     const PacketFields& fields, MutableBytes packet);

}  // namespace verbena::ib
