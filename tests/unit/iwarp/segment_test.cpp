// DDP and RDMAP headers: every field at its place, and each contradiction between control bytes,
// queue and length told as the TERMINATE that it calls for.
#include "proto/iwarp/segment.h"

#include <catch2/catch.hpp>
#include <set>

#include "tests/unit/wire_support/field_check.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::iwarp {
namespace {

using test::Bytes;
using test::from_hex;

/// The shortest segment of an opcode.
Bytes shortest(const RdmapInfo& info) {
  Bytes bytes(info.header_bytes());
  write_struct(MutableBytes(bytes), make_control(info.opcode, true));
  if (!info.is_tagged()) {
    auto header = read_struct<UntaggedHeader>(bytes);
    header.queue = static_cast<std::uint32_t>(info.queue);
    write_struct(MutableBytes(bytes), header);
  }
  return bytes;
}

TerminateReason error_of(ByteView bytes) {
  const auto segment = SegmentView::parse(bytes);
  REQUIRE_FALSE(segment);
  return segment.error();
}

template <class Header, class Buffer>
void check_number(std::size_t first_bit, Buffer Header::* member) {
  using Value = typename Buffer::value_type;
  test::check_field<Header>(
      first_bit, sizeof(Value) * 8,
      [&](Header& header, std::uint64_t value) { header.*member = static_cast<Value>(value); },
      [&](const Header& header) { return std::uint64_t{(header.*member).value()}; });
}

}  // namespace

TEST_CASE("every header field lies where the figures of the RFCs have it") {
  // RFC 5041, figures 3 and 4.
  check_number(16, &TaggedHeader::stag);
  check_number(48, &TaggedHeader::offset);
  check_number(16, &UntaggedHeader::invalidate_stag);
  check_number(48, &UntaggedHeader::queue);
  check_number(80, &UntaggedHeader::msn);
  check_number(112, &UntaggedHeader::message_offset);
  // RFC 5040, figure 7.
  check_number(0, &ReadRequestHeader::sink_stag);
  check_number(32, &ReadRequestHeader::sink_offset);
  check_number(96, &ReadRequestHeader::size_bytes);
  check_number(128, &ReadRequestHeader::source_stag);
  check_number(160, &ReadRequestHeader::source_offset);
  // RFC 7306, figures 4 and 6.
  check_number(0, &AtomicRequestHeader::operation);
  check_number(32, &AtomicRequestHeader::request_identifier);
  check_number(64, &AtomicRequestHeader::remote_stag);
  check_number(96, &AtomicRequestHeader::remote_offset);
  check_number(160, &AtomicRequestHeader::add_or_swap_data);
  check_number(224, &AtomicRequestHeader::add_or_swap_mask);
  check_number(288, &AtomicRequestHeader::compare_data);
  check_number(352, &AtomicRequestHeader::compare_mask);
  check_number(0, &AtomicResponseHeader::request_identifier);
  check_number(32, &AtomicResponseHeader::original);
}

TEST_CASE("the control bytes of every operation") {
  struct Row {
    RdmapOpcode opcode;
    bool last;
    unsigned ddp;
    unsigned rdmap;
  };
  // As siw sends them, and by RFC 7306.
  const Row rows[] = {
      {RdmapOpcode::write, true, 0xC1, 0x40},
      {RdmapOpcode::write, false, 0x81, 0x40},
      {RdmapOpcode::read_request, true, 0x41, 0x41},
      {RdmapOpcode::read_response, false, 0x81, 0x42},
      {RdmapOpcode::send, true, 0x41, 0x43},
      {RdmapOpcode::send_invalidate, false, 0x01, 0x44},
      {RdmapOpcode::send_solicited, true, 0x41, 0x45},
      {RdmapOpcode::send_solicited_invalidate, true, 0x41, 0x46},
      {RdmapOpcode::terminate, true, 0x41, 0x47},
      {RdmapOpcode::immediate, true, 0x41, 0x48},
      {RdmapOpcode::immediate_solicited, true, 0x41, 0x49},
      {RdmapOpcode::atomic_request, true, 0x41, 0x4A},
      {RdmapOpcode::atomic_response, true, 0x41, 0x4B},
  };
  std::set<RdmapOpcode> seen;
  for (const Row& row : rows) {
    const SegmentControl control = make_control(row.opcode, row.last);
    CHECK(control.ddp == row.ddp);
    CHECK(control.rdmap == row.rdmap);
    CHECK(control.is_last() == row.last);
    seen.insert(row.opcode);
  }
  CHECK(seen.size() == rdmap_table.size());
}

TEST_CASE("the shortest segment of every operation parses, and one byte less doesn't") {
  for (const RdmapInfo& info : rdmap_table) {
    INFO(info.name);
    const Bytes bytes = shortest(info);
    const auto segment = SegmentView::parse(bytes);
    REQUIRE(segment);
    CHECK(segment->opcode() == info.opcode);
    CHECK(segment->is_last());
    CHECK(segment->payload().empty());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      REQUIRE(error_of(ByteView(bytes).first(size)) == TerminateReason::llp_fpdu_length);
    }
  }
}

TEST_CASE("each wrong version, opcode, model and queue has its own reason") {
  for (const RdmapInfo& info : rdmap_table) {
    INFO(info.name);
    Bytes bytes = shortest(info);
    for (const unsigned version : {0U, 2U, 3U}) {
      Bytes bad = bytes;
      bad[0] = (bad[0] & std::byte{0xFC}) | static_cast<std::byte>(version);
      CHECK(error_of(bad) == (info.is_tagged() ? TerminateReason::ddp_tagged_version
                                               : TerminateReason::ddp_untagged_version));
      bad = bytes;
      bad[1] = (bad[1] & std::byte{0x3F}) | static_cast<std::byte>(version << 6U);
      CHECK(error_of(bad) == TerminateReason::rdmap_version);
    }
    for (const unsigned opcode : {0xCU, 0xDU, 0xEU, 0xFU}) {
      Bytes bad = bytes;
      bad[1] = (bad[1] & std::byte{0xF0}) | static_cast<std::byte>(opcode);
      CHECK(error_of(bad) == TerminateReason::rdmap_opcode);
    }
    bytes.resize(64);
    bytes[0] ^= std::byte{SegmentControl::ddp_tagged};
    CHECK(error_of(bytes) == TerminateReason::rdmap_opcode);
    bytes[0] ^= std::byte{SegmentControl::ddp_tagged};
    if (!info.is_tagged()) {
      bytes[9] ^= std::byte{8};
      CHECK(error_of(bytes) == TerminateReason::ddp_untagged_queue);
    }
  }
}

TEST_CASE("reserved bits of the control bytes are ignored") {
  Bytes bytes = shortest(rdmap_info(RdmapOpcode::send));
  bytes[0] |= std::byte{0x3C};
  bytes[1] |= std::byte{0x30};
  CHECK(SegmentView::parse(bytes)->opcode() == RdmapOpcode::send);
}

}  // namespace verbena::iwarp
