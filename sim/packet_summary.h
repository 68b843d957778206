// What a frame says, kept after the frame itself is gone: for traces, expectations and timelines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "proto/gid.h"
#include "proto/ib_bth/emit.h"
#include "proto/iwarp/glimpse.h"
#include "proto/packet_sink.h"

namespace verbena::sim {

/// A TCP segment, and what of iWARP it begins with.
struct SegmentSummary {
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint32_t sequence = 0;
  std::uint32_t acknowledgement = 0;
  /// As in inet::TcpHeader.
  std::uint8_t flags = 0;
  std::optional<iwarp::StartKind> start;
  std::vector<iwarp::FpduGlimpse> fpdus;

  [[nodiscard]] bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
};

struct PacketSummary {
  /// False: no RoCE packet, or one that can't be read; nothing below means anything then but what
  /// is of a TCP segment.
  bool is_transport = false;
  /// Of a TCP segment; then the addresses and lengths hold.
  std::optional<SegmentSummary> segment;
  bool icrc_is_good = true;
  Gid source;
  Gid destination;
  ib::PacketFields fields;
  std::uint32_t payload_bytes = 0;
  std::uint32_t frame_bytes = 0;
  /// Of a connection manager's message: its name, and of a rejection why.
  std::string connection_message;

  [[nodiscard]] bool is_readable() const { return is_transport || segment.has_value(); }
  [[nodiscard]] const ib::OpcodeInfo& info() const { return ib::opcode_info(fields.opcode); }
};

[[nodiscard]] PacketSummary summarize(ByteView frame);

/// As the table of opcodes names it, without the service of reliable connections: "WRITE_MIDDLE",
/// "UD_SEND_ONLY". Acknowledges are told apart: "ACK", "NAK", "RNR_NAK"; messages of connection
/// managers have their own names: "CM_ConnectRequest". Segments: "SYN", "SYN_ACK", "FIN", "RST",
/// "ACK", "MPA_REQUEST", "MPA_REPLY", as segment_names has it ("WRITE_LAST"), or "DATA".
[[nodiscard]] std::string short_name(const PacketSummary& packet);

/// One line about a packet: "WRITE_FIRST psn=0 qp=0x11 payload=1024 va=0x1000 length=2500".
[[nodiscard]] std::string describe(const PacketSummary& packet);

/// Why a packet is sent, in words: "retransmission 2 after a timeout". Empty for a plain one.
[[nodiscard]] std::string describe(const PacketNote& note);

}  // namespace verbena::sim
