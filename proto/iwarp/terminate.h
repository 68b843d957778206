// Why a stream was ended: the layers, types and codes of TERMINATE, in one table, and the message.
// Read first: RFC 5040, 4.8 (the header) and 8 (when), RFC 5041, 7, RFC 5044, 8, RFC 6581, 8;
// IANA's registry "Remote Direct Data Placement" (RFC 6580) lists them all.
//
// Linux's siw writes the control word with its bit fields the wrong way round: the nibbles of layer
// and type are exchanged, and the three flags are at the other end of their byte.
#pragma once

#include <boost/endian/buffers.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace verbena::iwarp {

enum class TerminateLayer : std::uint8_t { rdmap = 0, ddp = 1, llp = 2 };

// X(enumerator, layer, type, code, "type / code as the registry names them")
#define VERBENA_TERMINATE_REASONS(X)                                                             \
  X(rdmap_local_catastrophic, rdmap, 0, 0x00, "Local Catastrophic Error")                        \
  X(rdmap_stag, rdmap, 1, 0x00, "Remote Protection Error / Invalid Steering Tag")                \
  X(rdmap_bounds, rdmap, 1, 0x01, "Remote Protection Error / Base or bounds violation")          \
  X(rdmap_access, rdmap, 1, 0x02, "Remote Protection Error / Access rights violation")           \
  X(rdmap_stag_not_associated, rdmap, 1, 0x03,                                                   \
    "Remote Protection Error / Steering Tag not associated with RDMAP Stream")                   \
  X(rdmap_offset_wrap, rdmap, 1, 0x04, "Remote Protection Error / Tagged Offset wrap")           \
  X(rdmap_protection_invalidate, rdmap, 1, 0x09,                                                 \
    "Remote Protection Error / Steering Tag cannot be invalidated")                              \
  X(rdmap_protection_unspecified, rdmap, 1, 0xFF, "Remote Protection Error / Unspecified Error") \
  X(rdmap_version, rdmap, 2, 0x05, "Remote Operation Error / Invalid RDMAP version")             \
  X(rdmap_opcode, rdmap, 2, 0x06, "Remote Operation Error / Unexpected OpCode")                  \
  X(rdmap_catastrophic_stream, rdmap, 2, 0x07,                                                   \
    "Remote Operation Error / Catastrophic error, localized to RDMAP Stream")                    \
  X(rdmap_catastrophic_global, rdmap, 2, 0x08,                                                   \
    "Remote Operation Error / Catastrophic error, global")                                       \
  X(rdmap_operation_invalidate, rdmap, 2, 0x09,                                                  \
    "Remote Operation Error / Steering Tag cannot be Invalidated")                               \
  X(rdmap_operation_unspecified, rdmap, 2, 0xFF, "Remote Operation Error / Unspecified Error")   \
  X(ddp_local_catastrophic, ddp, 0, 0x00, "Local Catastrophic")                                  \
  X(ddp_tagged_stag, ddp, 1, 0x00, "Tagged Buffer Error / Invalid Steering Tag")                 \
  X(ddp_tagged_bounds, ddp, 1, 0x01, "Tagged Buffer Error / Base or bounds violation")           \
  X(ddp_tagged_stag_not_associated, ddp, 1, 0x02,                                                \
    "Tagged Buffer Error / Steering Tag not associated with DDP Stream")                         \
  X(ddp_tagged_offset_wrap, ddp, 1, 0x03, "Tagged Buffer Error / Tagged Offset wrap")            \
  X(ddp_tagged_version, ddp, 1, 0x04, "Tagged Buffer Error / Invalid DDP version")               \
  X(ddp_untagged_queue, ddp, 2, 0x01, "Untagged Buffer Error / Invalid Queue Number")            \
  X(ddp_untagged_no_buffer, ddp, 2, 0x02,                                                        \
    "Untagged Buffer Error / Invalid Message Sequence Number - no buffer available")             \
  X(ddp_untagged_msn_range, ddp, 2, 0x03,                                                        \
    "Untagged Buffer Error / Invalid Message Sequence Number - range is not valid")              \
  X(ddp_untagged_message_offset, ddp, 2, 0x04, "Untagged Buffer Error / Invalid Message Offset") \
  X(ddp_untagged_too_long, ddp, 2, 0x05,                                                         \
    "Untagged Buffer Error / DDP Message too long for available buffer")                         \
  X(ddp_untagged_version, ddp, 2, 0x06, "Untagged Buffer Error / Invalid DDP version")           \
  X(llp_stream_lost, llp, 0, 0x01, "MPA Error / TCP connection closed, terminated, or lost")     \
  X(llp_crc, llp, 0, 0x02, "MPA Error / MPA CRC Error")                                          \
  X(llp_fpdu_length, llp, 0, 0x03, "MPA Error / MPA Marker and ULPDU Length field mismatch")     \
  X(llp_start_frame, llp, 0, 0x04, "MPA Error / Invalid MPA Request Frame or MPA Reply Frame")   \
  X(llp_local_catastrophic, llp, 0, 0x05, "MPA Error / Local Catastrophic Error")                \
  X(llp_ird_insufficient, llp, 0, 0x06, "MPA Error / Insufficient IRD Resources")                \
  X(llp_no_matching_rtr, llp, 0, 0x07, "MPA Error / No Matching RTR Option")

enum class TerminateReason : std::uint8_t {
#define VERBENA_TERMINATE_ENUMERATOR(name, layer, type, code, text) name,
  VERBENA_TERMINATE_REASONS(VERBENA_TERMINATE_ENUMERATOR)
#undef VERBENA_TERMINATE_ENUMERATOR
};

/// What the wire says about a reason.
struct TerminateCode {
  TerminateLayer layer{};
  std::uint8_t type = 0;
  std::uint8_t code = 0;
  friend constexpr bool operator==(const TerminateCode&, const TerminateCode&) = default;
};
[[nodiscard]] TerminateCode code_of(TerminateReason reason) noexcept;
[[nodiscard]] std::string_view name_of(TerminateReason reason) noexcept;
/// "RDMAP", "DDP", "LLP"; empty for others.
[[nodiscard]] std::string_view layer_name(std::uint8_t layer) noexcept;
/// The reason with these numbers, if the registry has it.
[[nodiscard]] std::optional<TerminateReason> find_reason(const TerminateCode& code) noexcept;

/// The control word of a TERMINATE (RFC 5040, 4.8): layer and type share a byte, the flags tell
/// what follows about the segment that caused it.
struct TerminateHeader {
  static constexpr std::uint8_t flag_length = 0x80;  ///< M: the length is there.
  static constexpr std::uint8_t flag_ddp = 0x40;     ///< D: the DDP header is there.
  static constexpr std::uint8_t flag_rdmap = 0x20;   ///< R: the RDMAP header is there.

  std::uint8_t layer_and_type = 0;
  std::uint8_t code = 0;
  std::uint8_t flags = 0;
  std::uint8_t reserved = 0;

  [[nodiscard]] TerminateCode to_code() const {
    return {.layer = static_cast<TerminateLayer>(layer_and_type >> 4U),
            .type = static_cast<std::uint8_t>(layer_and_type & 0x0FU),
            .code = code};
  }
};
static_assert(is_wire_struct<TerminateHeader, 4>);

/// A whole TERMINATE: the untagged header, the control word, and behind it the length of the
/// segment that caused it and its headers.
inline constexpr std::size_t terminate_ulpdu_bytes_max = 18 + 4 + 2 + 18 + 28;

/// Writes the TERMINATE that answers `segment` (the ULPDU in question; empty if none is to blame)
/// and returns its size. `to` has room for terminate_ulpdu_bytes_max.
[[nodiscard]] std::size_t emit_terminate(MutableBytes to, TerminateReason reason, ByteView segment);

}  // namespace verbena::iwarp
