// The operations of RDMAP as one table of facts. Read first: RFC 5040, 4.1 with figures 3 to 5
// (opcodes, queues, which messages are tagged); RFC 7306, 4 (atomics and immediate data).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace verbena::iwarp {

enum class RdmapOpcode : std::uint8_t {
  write = 0x0,
  read_request = 0x1,
  read_response = 0x2,
  send = 0x3,
  send_invalidate = 0x4,
  send_solicited = 0x5,
  send_solicited_invalidate = 0x6,
  terminate = 0x7,
  immediate = 0x8,
  immediate_solicited = 0x9,
  atomic_request = 0xA,
  atomic_response = 0xB,
};

/// DDP's untagged queues. Tagged messages have none.
enum class DdpQueue : std::uint8_t {
  send = 0,
  read_request = 1,  ///< Atomic requests too: READs and atomics are executed in one order.
  terminate = 2,
  atomic_response = 3,
  tagged = 0xFF,
};
/// How many queues there are.
inline constexpr std::size_t ddp_queue_count = 4;

/// Figure 5 of RFC 7306. What other fabrics call a swap is a compare and swap that compares
/// nothing.
enum class AtomicOpcode : std::uint8_t { fetch_add = 0, compare_swap = 2 };
inline constexpr std::uint32_t atomic_opcode_mask = 0xF;

struct RdmapInfo {
  RdmapOpcode opcode{};
  /// As Wireshark and the RFCs call it.
  std::string_view name;
  DdpQueue queue{};
  /// RDMAP's own header behind DDP's.
  std::uint8_t rdmap_header_bytes = 0;
  bool is_solicited = false;
  bool invalidates = false;

  [[nodiscard]] constexpr bool is_tagged() const { return queue == DdpQueue::tagged; }
  [[nodiscard]] constexpr std::size_t ddp_header_bytes() const { return is_tagged() ? 14 : 18; }
  [[nodiscard]] constexpr std::size_t header_bytes() const {
    return ddp_header_bytes() + rdmap_header_bytes;
  }
  /// Takes a receive of the consumer.
  [[nodiscard]] constexpr bool takes_receive() const { return queue == DdpQueue::send; }
};

/// By opcode. Immediate data is the payload of its message, eight bytes. A TERMINATE has at least
/// its control word.
inline constexpr std::array<RdmapInfo, 12> rdmap_table{{
    {RdmapOpcode::write, "Write", DdpQueue::tagged},
    {RdmapOpcode::read_request, "Read Request", DdpQueue::read_request, 28},
    {RdmapOpcode::read_response, "Read Response", DdpQueue::tagged},
    {RdmapOpcode::send, "Send", DdpQueue::send},
    {RdmapOpcode::send_invalidate, "Send with Invalidate", DdpQueue::send, 0, false, true},
    {RdmapOpcode::send_solicited, "Send with SE", DdpQueue::send, 0, true, false},
    {RdmapOpcode::send_solicited_invalidate, "Send with SE and Invalidate", DdpQueue::send, 0, true,
     true},
    {RdmapOpcode::terminate, "Terminate", DdpQueue::terminate, 4},
    {RdmapOpcode::immediate, "Immediate", DdpQueue::send},
    {RdmapOpcode::immediate_solicited, "Immediate with SE", DdpQueue::send, 0, true, false},
    {RdmapOpcode::atomic_request, "Atomic Request", DdpQueue::read_request, 52},
    {RdmapOpcode::atomic_response, "Atomic Response", DdpQueue::atomic_response, 12},
}};

/// The row of an opcode as it came from a wire; null if there is none.
[[nodiscard]] const RdmapInfo* find_rdmap_info(std::uint8_t opcode) noexcept;
[[nodiscard]] const RdmapInfo& rdmap_info(RdmapOpcode opcode) noexcept;

/// RFC 7306, 6: immediate data has eight bytes.
inline constexpr std::size_t immediate_data_bytes = 8;
/// RFC 7306, 5.1: an atomic works on eight bytes, whose offset is a multiple of that.
inline constexpr std::size_t atomic_bytes = 8;

}  // namespace verbena::iwarp
