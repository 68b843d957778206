// What a segment of a stream says by itself: every name that an FPDU can have, FPDUs behind each
// other, start frames; and that parts, broken bytes and other protocols say nothing.
#include "proto/iwarp/glimpse.h"

#include <catch2/catch.hpp>
#include <set>

#include "base/prng.h"
#include "proto/iwarp/fpdu_writer.h"
#include "proto/iwarp/segment.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::iwarp {
namespace {

using test::Bytes;

Bytes fpdu_around(ByteView ulpdu) {
  FpduWriter writer(FpduFormat{});
  Bytes fpdu(writer.size_of(ulpdu.size()));
  copy_bytes(writer.ulpdu_room(fpdu, ulpdu.size()), ulpdu);
  writer.finish(fpdu, ulpdu.size());
  return fpdu;
}

Bytes fpdu_of(RdmapOpcode opcode, bool is_last, std::size_t payload_bytes) {
  const RdmapInfo& info = rdmap_info(opcode);
  Bytes ulpdu(info.header_bytes() + payload_bytes);
  if (info.is_tagged()) {
    TaggedHeader header;
    header.control = make_control(opcode, is_last);
    header.stag = 0x1234;
    header.offset = 0x5'0000'0000;
    write_struct(MutableBytes(ulpdu), header);
  } else {
    UntaggedHeader header;
    header.control = make_control(opcode, is_last);
    header.queue = static_cast<std::uint32_t>(info.queue);
    header.msn = 7;
    header.message_offset = 1020;
    write_struct(MutableBytes(ulpdu), header);
  }
  return fpdu_around(ulpdu);
}

}  // namespace

TEST_CASE("every named segment is recognized by its FPDU") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < segment_name_rtr; ++i) {
    const SegmentName& row = segment_names[i];
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    const Bytes fpdu = fpdu_of(row.opcode, row.is_last, 5);
    ByteView stream = fpdu;
    const auto glimpse = glimpse_fpdu(stream);
    REQUIRE(glimpse);
    CHECK(glimpse->name == i);
    CHECK(glimpse->opcode == row.opcode);
    CHECK(glimpse->is_last == row.is_last);
    CHECK(glimpse->payload_bytes == 5);
    CHECK(stream.empty());
    if (glimpse->is_tagged) {
      CHECK(glimpse->stag == 0x1234);
      CHECK(glimpse->offset == 0x5'0000'0000);
    } else {
      CHECK(glimpse->msn == 7);
      CHECK(glimpse->message_offset == 1020);
    }
  }
}

TEST_CASE("what an atomic is about, and what immediate data says, is seen") {
  Bytes atomic(rdmap_info(RdmapOpcode::atomic_request).header_bytes());
  UntaggedHeader header;
  header.control = make_control(RdmapOpcode::atomic_request, true);
  header.queue = static_cast<std::uint32_t>(DdpQueue::read_request);
  write_struct(MutableBytes(atomic), header);
  AtomicRequestHeader request;
  request.remote_stag = 0x77;
  request.remote_offset = 0x5'0000'0008;
  write_struct(MutableBytes(atomic).subspan(untagged_header_bytes), request);
  Bytes fpdu = fpdu_around(atomic);
  ByteView stream = fpdu;
  const auto seen = glimpse_fpdu(stream);
  REQUIRE(seen);
  CHECK(seen->source_stag == 0x77);
  CHECK(seen->source_offset == 0x5'0000'0008);
  CHECK(seen->read_bytes == 8);

  Bytes immediate(untagged_header_bytes + immediate_data_bytes);
  header.control = make_control(RdmapOpcode::immediate, true);
  header.queue = static_cast<std::uint32_t>(DdpQueue::send);
  write_struct(MutableBytes(immediate), header);
  ImmediateData data;
  data.value = 0x1234'5678;
  write_struct(MutableBytes(immediate).subspan(untagged_header_bytes), data);
  fpdu = fpdu_around(immediate);
  stream = fpdu;
  CHECK(glimpse_fpdu(stream)->immediate == 0x1234'5678);
}

TEST_CASE("a WRITE of nothing to nowhere shows that an initiator is ready, others are WRITEs") {
  const auto name_of = [](std::uint32_t stag, std::size_t payload_bytes) {
    Bytes ulpdu(tagged_header_bytes + payload_bytes);
    TaggedHeader header;
    header.control = make_control(RdmapOpcode::write, true);
    header.stag = stag;
    write_struct(MutableBytes(ulpdu), header);
    const Bytes fpdu = fpdu_around(ulpdu);
    ByteView stream = fpdu;
    return segment_names[*glimpse_fpdu(stream)->name].name;
  };
  CHECK(name_of(0, 0) == "RTR");
  CHECK(name_of(1, 0) == "WRITE_LAST");
  CHECK(name_of(0, 1) == "WRITE_LAST");
}

TEST_CASE("FPDUs behind each other are taken off one by one, up to a part of one") {
  Bytes bytes;
  for (const RdmapOpcode opcode : {RdmapOpcode::write, RdmapOpcode::send, RdmapOpcode::write}) {
    const Bytes fpdu = fpdu_of(opcode, true, 100);
    bytes.insert(bytes.end(), fpdu.begin(), fpdu.end());
  }
  ByteView stream = ByteView(bytes).first(bytes.size() - 1);
  CHECK(glimpse_fpdu(stream)->opcode == RdmapOpcode::write);
  CHECK(glimpse_fpdu(stream)->opcode == RdmapOpcode::send);
  const std::size_t left = stream.size();
  CHECK_FALSE(glimpse_fpdu(stream));
  CHECK(stream.size() == left);
}

TEST_CASE("an empty FPDU is one without a name") {
  const Bytes fpdu = fpdu_around({});
  ByteView stream = fpdu;
  const auto glimpse = glimpse_fpdu(stream);
  REQUIRE(glimpse);
  CHECK_FALSE(glimpse->name);
}

TEST_CASE("no byte of an FPDU can change without it being lost from sight") {
  const Bytes fpdu = fpdu_of(RdmapOpcode::send, true, 3);
  for (std::size_t at = 0; at < fpdu.size(); ++at) {
    Bytes changed = fpdu;
    changed[at] ^= std::byte{0x10};
    ByteView stream = changed;
    INFO("byte " << at);
    CHECK_FALSE(glimpse_fpdu(stream));
  }
}

TEST_CASE("random bytes are no FPDU and no start frame") {
  Prng prng(3);
  for (int i = 0; i < 2'000; ++i) {
    const Bytes bytes = test::random_bytes(prng, prng.below(100));
    ByteView stream = bytes;
    CHECK_FALSE(glimpse_fpdu(stream));
    CHECK_FALSE(glimpse_start(bytes));
  }
}

TEST_CASE("start frames are told apart, and a part of one isn't one") {
  for (const StartKind kind : {StartKind::request, StartKind::reply}) {
    const StartFrame frame{.kind = kind, .enhanced = EnhancedParameters{}};
    Bytes bytes(*start_frame_bytes(frame));
    emit_start_frame(bytes, frame);
    CHECK(glimpse_start(bytes) == kind);
    CHECK_FALSE(glimpse_start(ByteView(bytes).first(bytes.size() - 1)));
    ByteView stream = bytes;
    CHECK_FALSE(glimpse_fpdu(stream));
  }
}

}  // namespace verbena::iwarp
