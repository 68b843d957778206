// DDP segments with RDMAP in them: every ULPDU of a stream is one. Read first: RFC 5041, 4 (tagged
// and untagged segments), RFC 5040, 4 (RDMAP headers), RFC 7306, 5 and 6 (atomics, immediate data).
//
//   tagged    control STag offset            │ payload: goes to [offset, ...) of the memory named
//   by
//                                            │ the STag
//   untagged  control queue MSN message-     │ RDMAP header or payload: goes to `message offset` of
//             offset, STag to invalidate     │ the next receive of that queue
#pragma once

#include <boost/endian/buffers.hpp>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "proto/iwarp/rdmap.h"
#include "proto/iwarp/terminate.h"

namespace verbena::iwarp {

/// The two control bytes that every segment begins with.
struct SegmentControl {
  static constexpr std::uint8_t ddp_tagged = 0x80;
  static constexpr std::uint8_t ddp_last = 0x40;
  static constexpr std::uint8_t ddp_version_mask = 0x03;
  static constexpr std::uint8_t ddp_version = 1;
  static constexpr unsigned rdmap_version_shift = 6;
  static constexpr std::uint8_t rdmap_version = 1;
  static constexpr std::uint8_t rdmap_opcode_mask = 0x0F;

  std::uint8_t ddp = 0;
  std::uint8_t rdmap = 0;

  [[nodiscard]] bool is_tagged() const { return (ddp & ddp_tagged) != 0; }
  /// The segment ends its message.
  [[nodiscard]] bool is_last() const { return (ddp & ddp_last) != 0; }
  [[nodiscard]] unsigned ddp_version_value() const { return ddp & ddp_version_mask; }
  [[nodiscard]] unsigned rdmap_version_value() const {
    return static_cast<unsigned>(rdmap) >> rdmap_version_shift;
  }
  [[nodiscard]] std::uint8_t opcode_value() const { return rdmap & rdmap_opcode_mask; }
};
inline constexpr std::size_t segment_control_bytes = 2;
static_assert(is_wire_struct<SegmentControl, segment_control_bytes>);

/// RFC 5041, 4.2.
struct TaggedHeader {
  SegmentControl control;
  boost::endian::big_uint32_buf_t stag{};
  boost::endian::big_uint64_buf_t offset{};
};
inline constexpr std::size_t tagged_header_bytes = 14;
static_assert(is_wire_struct<TaggedHeader, tagged_header_bytes>);

/// RFC 5041, 4.3. The first word belongs to RDMAP.
struct UntaggedHeader {
  SegmentControl control;
  boost::endian::big_uint32_buf_t invalidate_stag{};
  boost::endian::big_uint32_buf_t queue{};
  boost::endian::big_uint32_buf_t msn{};
  boost::endian::big_uint32_buf_t message_offset{};
};
inline constexpr std::size_t untagged_header_bytes = 18;
static_assert(is_wire_struct<UntaggedHeader, untagged_header_bytes>);

/// RFC 5040, 4.4.
struct ReadRequestHeader {
  boost::endian::big_uint32_buf_t sink_stag{};
  boost::endian::big_uint64_buf_t sink_offset{};
  boost::endian::big_uint32_buf_t size_bytes{};
  boost::endian::big_uint32_buf_t source_stag{};
  boost::endian::big_uint64_buf_t source_offset{};
};
static_assert(is_wire_struct<ReadRequestHeader, 28>);

/// RFC 7306, 5.2.1.
struct AtomicRequestHeader {
  /// 28 reserved bits and the operation: AtomicOpcode.
  boost::endian::big_uint32_buf_t operation{};
  boost::endian::big_uint32_buf_t request_identifier{};
  boost::endian::big_uint32_buf_t remote_stag{};
  boost::endian::big_uint64_buf_t remote_offset{};
  boost::endian::big_uint64_buf_t add_or_swap_data{};
  boost::endian::big_uint64_buf_t add_or_swap_mask{};
  boost::endian::big_uint64_buf_t compare_data{};
  boost::endian::big_uint64_buf_t compare_mask{};
};
static_assert(is_wire_struct<AtomicRequestHeader, 52>);

/// RFC 7306, 5.2.2.
struct AtomicResponseHeader {
  boost::endian::big_uint32_buf_t request_identifier{};
  boost::endian::big_uint64_buf_t original{};
};
static_assert(is_wire_struct<AtomicResponseHeader, 12>);

/// What an Immediate message carries (RFC 7306, 6). The verbs have 32 bits of its 64; cxgb4 and its
/// firmware have them in front, and so have we.
struct ImmediateData {
  boost::endian::big_uint32_buf_t value{};
  boost::endian::big_uint32_buf_t unused{};
};
static_assert(is_wire_struct<ImmediateData, immediate_data_bytes>);

/// A segment whose headers make sense by themselves: versions, opcode, model and queue agree, and
/// the headers of the opcode are there.
class SegmentView {
 public:
  /// The error is what a TERMINATE has to say.
  [[nodiscard]] static Result<SegmentView, TerminateReason> parse(ByteView ulpdu);

  [[nodiscard]] const RdmapInfo& info() const { return *info_; }
  [[nodiscard]] RdmapOpcode opcode() const { return info_->opcode; }
  [[nodiscard]] bool is_last() const { return read_struct<SegmentControl>(ulpdu_).is_last(); }
  [[nodiscard]] ByteView ulpdu() const { return ulpdu_; }

  /// Of a tagged segment.
  [[nodiscard]] TaggedHeader tagged() const { return read_struct<TaggedHeader>(ulpdu_); }
  /// Of an untagged segment.
  [[nodiscard]] UntaggedHeader untagged() const { return read_struct<UntaggedHeader>(ulpdu_); }
  /// RDMAP's header; Header is the one of the opcode.
  template <class Header>
  [[nodiscard]] Header rdmap() const {
    return read_struct<Header>(ulpdu_.subspan(info_->ddp_header_bytes()));
  }
  /// What follows all headers. For a TERMINATE that is what it says about the segment in question.
  [[nodiscard]] ByteView payload() const { return ulpdu_.subspan(info_->header_bytes()); }

 private:
  SegmentView(ByteView ulpdu, const RdmapInfo& info) : ulpdu_(ulpdu), info_(&info) {}

  ByteView ulpdu_;
  const RdmapInfo* info_;
};

/// The control bytes of a segment of ours.
[[nodiscard]] SegmentControl make_control(RdmapOpcode opcode, bool is_last);

}  // namespace verbena::iwarp
