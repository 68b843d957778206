// What a piece of a stream says by itself, without what came before it: for traces, fault rules and
// whoever else only sees segments. MPA's framing makes it easy where FPDUs begin where segments do
// (RFC 5044, 5.1: "FPDU alignment"): a start frame has its key, an FPDU its CRC.
//
// Not seen: FPDUs with markers, without CRC, or of which the segment has only a part.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "proto/iwarp/rdmap.h"
#include "proto/iwarp/start_frame.h"
#include "proto/iwarp/terminate.h"

namespace verbena::iwarp {

/// An operation of RDMAP as messages are told apart on a stream: by opcode, and whether the segment
/// is the last one of its message.
struct SegmentName {
  std::string_view name;
  RdmapOpcode opcode{};
  bool is_last = false;
};
/// All of them: "WRITE" and "WRITE_LAST"; what always is one segment has one name. The names are
/// those of RoCE's opcodes where both have the same operation.
inline constexpr std::array<SegmentName, 19> segment_names{{
    {"WRITE", RdmapOpcode::write, false},
    {"WRITE_LAST", RdmapOpcode::write, true},
    {"READ_REQUEST", RdmapOpcode::read_request, true},
    {"READ_RESPONSE", RdmapOpcode::read_response, false},
    {"READ_RESPONSE_LAST", RdmapOpcode::read_response, true},
    {"SEND", RdmapOpcode::send, false},
    {"SEND_LAST", RdmapOpcode::send, true},
    {"SEND_INVALIDATE", RdmapOpcode::send_invalidate, false},
    {"SEND_LAST_INVALIDATE", RdmapOpcode::send_invalidate, true},
    {"SEND_SOLICITED", RdmapOpcode::send_solicited, false},
    {"SEND_LAST_SOLICITED", RdmapOpcode::send_solicited, true},
    {"SEND_SOLICITED_INVALIDATE", RdmapOpcode::send_solicited_invalidate, false},
    {"SEND_LAST_SOLICITED_INVALIDATE", RdmapOpcode::send_solicited_invalidate, true},
    {"TERMINATE", RdmapOpcode::terminate, true},
    {"ATOMIC_REQUEST", RdmapOpcode::atomic_request, true},
    {"ATOMIC_RESPONSE", RdmapOpcode::atomic_response, true},
    {"IMMEDIATE", RdmapOpcode::immediate, true},
    {"IMMEDIATE_SOLICITED", RdmapOpcode::immediate_solicited, true},
    // Of nothing to nowhere, by which an initiator shows that it is ready (RFC 6581, 4).
    {"RTR", RdmapOpcode::write, true},
}};
inline constexpr std::size_t segment_name_rtr = segment_names.size() - 1;

/// What an FPDU says.
struct FpduGlimpse {
  /// Position in segment_names; nothing for what has no name there, and for an empty FPDU.
  std::optional<std::size_t> name;
  RdmapOpcode opcode{};
  bool is_last = false;
  bool is_tagged = false;
  /// Tagged: where the payload goes.
  std::uint32_t stag = 0;
  std::uint64_t offset = 0;
  /// Untagged: which message of its queue, and where in it.
  std::uint32_t msn = 0;
  std::uint32_t message_offset = 0;
  /// READ and atomic requests: what is read.
  std::uint32_t source_stag = 0;
  std::uint64_t source_offset = 0;
  std::uint32_t read_bytes = 0;
  /// Immediate messages: the part that the verbs know.
  std::uint32_t immediate = 0;
  /// Behind all headers.
  std::uint32_t payload_bytes = 0;
  /// Of a TERMINATE.
  TerminateCode terminate;
};

/// Takes the FPDU off that begins here. Nothing, and `stream` as it was, if none is seen.
[[nodiscard]] std::optional<FpduGlimpse> glimpse_fpdu(ByteView& stream);

/// The kind of the start frame that begins here, of either revision.
[[nodiscard]] std::optional<StartKind> glimpse_start(ByteView stream);

}  // namespace verbena::iwarp
