// A packet as a test sees it on the wire: decoded, with its bytes, and as one line of text that
// holds only the fields that matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "proto/ib_bth/emit.h"
#include "proto/packet_sink.h"

namespace verbena::test {

/// The two ends of a Pair.
enum class Side : std::uint8_t { a, b };

[[nodiscard]] constexpr Side other(Side side) { return side == Side::a ? Side::b : Side::a; }

struct WirePacket {
  Side from = Side::a;
  Time sent{};
  /// Counts the packets of each direction, from 0.
  std::uint64_t index = 0;
  ib::PacketFields fields;
  std::size_t payload_bytes = 0;
  PacketNote note;
  /// The whole Ethernet frame.
  std::vector<std::byte> frame;

  [[nodiscard]] ByteView payload() const;
  [[nodiscard]] const ib::OpcodeInfo& info() const { return ib::opcode_info(fields.opcode); }
};

/// Decodes a frame that our own NIC sent: anything wrong with it fails the test.
[[nodiscard]] WirePacket decode(Side from, Time sent, ByteView frame, const PacketNote& note);

/// "send_first 100 +1024", "write_last_imm 102 +7 A SE", "acknowledge 102 ack msn 1",
/// "acknowledge 100 nak 62 msn 0", "acknowledge 100 rnr 12 msn 0", "read_request 100 len 3000".
/// The service's prefix is left out: all is RC.
[[nodiscard]] std::string to_text(const WirePacket& packet);

}  // namespace verbena::test
