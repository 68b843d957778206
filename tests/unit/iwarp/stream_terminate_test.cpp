// Every TERMINATE that a queue pair can send, provoked once: what a peer must
// not send is told with the code of the RFC that says so, is never executed,
// and ends the stream.
#include <algorithm>
#include <boost/endian/buffers.hpp>
#include <catch2/catch.hpp>
#include <set>

#include "tests/unit/iwarp/stream_pair.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::test {
namespace {

using iwarp::FpduWriter;
using iwarp::SegmentView;
using iwarp::StreamState;
using iwarp::TerminateReason;

constexpr std::uint32_t key = 0x100;
constexpr std::uint32_t other_pd_key = 0x200;
constexpr std::uint32_t read_only_key = 0x300;
constexpr std::uint32_t write_only_key = 0x400;
constexpr std::uint64_t base = 0x1000;
constexpr std::size_t region_bytes = 4096;

std::string hex32(std::uint32_t value) {
  const boost::endian::big_uint32_buf_t wire(value);
  return to_hex(bytes_of(wire));
}
std::string hex64(std::uint64_t value) {
  const boost::endian::big_uint64_buf_t wire(value);
  return to_hex(bytes_of(wire));
}
/// A segment of a WRITE that ends it.
std::string write_segment(std::uint32_t stag, std::uint64_t offset, std::size_t bytes) {
  return "c140" + hex32(stag) + hex64(offset) + std::string(2 * bytes, 'a');
}
std::string send_segment(const std::string& control, std::uint32_t msn, std::uint32_t offset,
                         std::size_t bytes) {
  return control + hex32(0) + hex32(0) + hex32(msn) + hex32(offset) + std::string(2 * bytes, 'b');
}
std::string read_segment(std::uint32_t msn, std::uint32_t stag, std::uint64_t offset,
                         std::uint32_t bytes, std::uint32_t message_offset = 0) {
  return "4141" + hex32(0) + hex32(1) + hex32(msn) + hex32(message_offset) + hex32(9) + hex64(0) +
         hex32(bytes) + hex32(stag) + hex64(offset);
}
std::string response_segment(const std::string& control, std::uint32_t stag, std::uint64_t offset,
                             std::size_t bytes) {
  return control + hex32(stag) + hex64(offset) + std::string(2 * bytes, 'c');
}

/// A responder, and what a scripted initiator sends to it.
struct Victim : StreamPair {
  Victim() {
    b.memory.add(key, base, region_bytes);
    b.memory.add(other_pd_key, base, region_bytes, Access::remote_write | Access::remote_read,
                 PdId{2});
    b.memory.add(read_only_key, base, region_bytes, Access::remote_read);
    b.memory.add(write_only_key, base, region_bytes, Access::local_write | Access::remote_write);
    before = b.memory.at(key).bytes;
  }
  void receive_posted(std::uint32_t bytes) {
    REQUIRE(b.receive(1, {{.addr = Va{base}, .length = bytes, .lkey = Lkey{key}}}));
  }
  void hears(const std::string& ulpdu_hex) {
    const Bytes ulpdu = from_hex(ulpdu_hex);
    Bytes fpdu(writer.size_of(ulpdu.size()));
    copy_bytes(writer.ulpdu_room(fpdu, ulpdu.size()), ulpdu);
    writer.finish(fpdu, ulpdu.size());
    b.on_stream(fpdu);
  }

  FpduWriter writer{{.markers = false, .crc = true}};
  Bytes before;
};

struct Row {
  std::string name;
  TerminateReason reason;
  void (*provoke)(Victim&);
};

const Row rows[] = {
    {"STag that nobody registered", TerminateReason::ddp_tagged_stag,
     [](Victim& v) { v.hears(write_segment(0xBAD, base, 8)); }},
    {"WRITE past the end", TerminateReason::ddp_tagged_bounds,
     [](Victim& v) { v.hears(write_segment(key, base + region_bytes - 4, 8)); }},
    {"WRITE before the beginning", TerminateReason::ddp_tagged_bounds,
     [](Victim& v) { v.hears(write_segment(key, base - 1, 8)); }},
    {"STag of another protection domain", TerminateReason::ddp_tagged_stag_not_associated,
     [](Victim& v) { v.hears(write_segment(other_pd_key, base, 8)); }},
    {"WRITE without the right to", TerminateReason::rdmap_access,
     [](Victim& v) { v.hears(write_segment(read_only_key, base, 8)); }},
    {"WRITE across the end of all addresses", TerminateReason::ddp_tagged_offset_wrap,
     [](Victim& v) { v.hears(write_segment(key, 0xFFFF'FFFF'FFFF'FFFC, 8)); }},
    {"DDP version of a tagged segment", TerminateReason::ddp_tagged_version,
     [](Victim& v) { v.hears("c240" + hex32(key) + hex64(base)); }},
    {"DDP version of an untagged segment", TerminateReason::ddp_untagged_version,
     [](Victim& v) { v.hears(send_segment("4243", 1, 0, 4)); }},
    {"queue that doesn't exist", TerminateReason::ddp_untagged_queue,
     [](Victim& v) { v.hears("4143" + hex32(0) + hex32(7) + hex32(1) + hex32(0)); }},
    {"SEND without a receive", TerminateReason::ddp_untagged_no_buffer,
     [](Victim& v) { v.hears(send_segment("4143", 1, 0, 4)); }},
    {"SEND with a number that isn't next", TerminateReason::ddp_untagged_msn_range,
     [](Victim& v) {
       v.receive_posted(100);
       v.hears(send_segment("4143", 2, 0, 4));
     }},
    {"SEND with a hole", TerminateReason::ddp_untagged_message_offset,
     [](Victim& v) {
       v.receive_posted(100);
       v.hears(send_segment("0143", 1, 0, 4));
       v.hears(send_segment("4143", 1, 8, 4));
     }},
    {"SEND longer than its receive", TerminateReason::ddp_untagged_too_long,
     [](Victim& v) {
       v.receive_posted(7);
       v.hears(send_segment("4143", 1, 0, 8));
     }},
    {"SEND whose receive has no memory any more", TerminateReason::ddp_local_catastrophic,
     [](Victim& v) {
       v.receive_posted(100);
       v.b.memory.remove(key);
       v.hears(send_segment("4143", 1, 0, 8));
       v.b.memory.add(key, base, region_bytes);
     }},
    {"SEND that becomes another SEND", TerminateReason::rdmap_opcode,
     [](Victim& v) {
       v.receive_posted(100);
       v.hears(send_segment("0143", 1, 0, 4));
       v.hears(send_segment("4145", 1, 4, 4));
     }},
    {"STag to invalidate that isn't one", TerminateReason::rdmap_protection_invalidate,
     [](Victim& v) {
       v.receive_posted(100);
       v.hears("4144" + hex32(0xBAD) + hex32(0) + hex32(1) + hex32(0));
     }},
    {"RDMAP version", TerminateReason::rdmap_version,
     [](Victim& v) { v.hears(send_segment("4183", 1, 0, 4)); }},
    {"operation that doesn't exist", TerminateReason::rdmap_opcode,
     [](Victim& v) { v.hears(send_segment("414f", 1, 0, 4)); }},
    {"atomic that nobody agreed on", TerminateReason::rdmap_opcode,
     [](Victim& v) {
       v.hears("414a" + hex32(0) + hex32(1) + hex32(1) + hex32(0) + std::string(104, '0'));
     }},
    {"READ of a STag that nobody registered", TerminateReason::rdmap_stag,
     [](Victim& v) { v.hears(read_segment(1, 0xBAD, base, 8)); }},
    {"READ past the end", TerminateReason::rdmap_bounds,
     [](Victim& v) { v.hears(read_segment(1, key, base, region_bytes + 1)); }},
    {"READ without the right to", TerminateReason::rdmap_access,
     [](Victim& v) { v.hears(read_segment(1, write_only_key, base, 8)); }},
    {"READ in another protection domain", TerminateReason::rdmap_stag_not_associated,
     [](Victim& v) { v.hears(read_segment(1, other_pd_key, base, 8)); }},
    {"READ across the end of all addresses", TerminateReason::rdmap_offset_wrap,
     [](Victim& v) { v.hears(read_segment(1, key, 0xFFFF'FFFF'FFFF'FFFC, 8)); }},
    {"READ with a number that isn't next", TerminateReason::ddp_untagged_msn_range,
     [](Victim& v) { v.hears(read_segment(3, key, base, 8)); }},
    {"READ request in pieces", TerminateReason::ddp_untagged_message_offset,
     [](Victim& v) { v.hears(read_segment(1, key, base, 8, 4)); }},
    {"READ request with something behind it", TerminateReason::ddp_untagged_too_long,
     [](Victim& v) { v.hears(read_segment(1, key, base, 8) + "00"); }},
    {"more READs than agreed", TerminateReason::ddp_untagged_no_buffer,
     [](Victim& v) {
       for (std::uint32_t msn = 1; msn <= 5; ++msn) {
         v.hears(read_segment(msn, key, base, 8));
       }
     }},
    {"response to nothing", TerminateReason::rdmap_opcode,
     [](Victim& v) { v.hears(response_segment("c142", key, base, 8)); }},
    {"segment too short for its headers", TerminateReason::llp_fpdu_length,
     [](Victim& v) { v.hears("c140000000"); }},
    {"empty FPDU that is no RTR", TerminateReason::llp_fpdu_length, [](Victim& v) { v.hears(""); }},
    {"wrong CRC", TerminateReason::llp_crc,
     [](Victim& v) { v.b.on_stream(from_hex("0000000012345678")); }},
};

}  // namespace

TEST_CASE(
    "what a peer must not send is told by the TERMINATE that its RFC "
    "asks for") {
  for (const Row& row : rows) {
    INFO(row.name);
    Victim victim;
    row.provoke(victim);
    CHECK(victim.b.qp.state() == StreamState::terminate);
    CHECK(victim.b.qp.sent_terminate() == row.reason);
    // The first four bytes of a SEND that goes wrong later have come in by
    // then.
    CHECK(std::ranges::equal(ByteView(victim.b.memory.at(key).bytes).subspan(8),
                             ByteView(victim.before).subspan(8)));
    CHECK_FALSE(victim.b.qp.wants_close());
    victim.b.transmit();
    CHECK(victim.b.qp.wants_close());

    // What went out are answers from before, if any, and one TERMINATE.
    iwarp::FpduReceiver receiver({.markers = false, .crc = true});
    ByteView stream = victim.b.out.bytes;
    const auto fpdu = receiver.next(stream);
    REQUIRE(fpdu);
    REQUIRE(*fpdu);
    CHECK(stream.empty());
    const auto segment = SegmentView::parse((*fpdu)->ulpdu);
    REQUIRE(segment);
    CHECK(segment->opcode() == iwarp::RdmapOpcode::terminate);
    CHECK(segment->rdmap<iwarp::TerminateHeader>().to_code() == code_of(row.reason));
    for (const Completion& completion : victim.b.received.completions) {
      CHECK(completion.status != WcStatus::success);
    }
  }
}

TEST_CASE(
    "a marker that points elsewhere is told as a mismatch of marker and "
    "length") {
  iwarp::MpaAgreement agreement = StreamPair::plain_agreement();
  agreement.send_format.markers = true;
  StreamPair pair(agreement);
  pair.b.on_stream(from_hex("00000004000000000000000000000000"));
  CHECK(pair.b.qp.sent_terminate() == TerminateReason::llp_fpdu_length);
}

TEST_CASE("nothing is heard after a TERMINATE was sent") {
  Victim victim;
  victim.hears(write_segment(0xBAD, base, 8));
  victim.hears(write_segment(key, base, 8));
  CHECK(victim.b.memory.at(key).bytes == victim.before);
}

TEST_CASE("a TERMINATE is never answered by another") {
  Victim victim;
  victim.hears("4147" + hex32(0) + hex32(2) + hex32(1) + hex32(0) + "12020000");
  CHECK(victim.b.qp.state() == StreamState::terminate);
  CHECK(victim.b.qp.received_terminate() == code_of(TerminateReason::ddp_untagged_no_buffer));
  CHECK_FALSE(victim.b.qp.sent_terminate());
  victim.b.transmit();
  CHECK(victim.b.out.bytes.empty());
  CHECK(victim.b.qp.wants_close());
}

TEST_CASE(
    "a response that isn't the one that is waited for ends the stream, "
    "and moves nothing") {
  struct Wrong {
    std::string segment;
    TerminateReason reason;
  };
  constexpr std::uint32_t bad_stag = 0x101;
  const Wrong wrongs[] = {
      {response_segment("c142", bad_stag, base, 100), TerminateReason::ddp_tagged_stag},
      {response_segment("c142", key, base + 1, 100), TerminateReason::ddp_tagged_bounds},
      {response_segment("c142", key, base, 101), TerminateReason::ddp_tagged_bounds},
      {response_segment("c142", key, base, 99), TerminateReason::ddp_tagged_bounds},
      {response_segment("8142", key, base, 100), TerminateReason::ddp_tagged_bounds},
  };
  for (const Wrong& wrong : wrongs) {
    INFO(wrong.segment.substr(0, 28));
    Victim victim;
    victim.hears(write_segment(0, 0, 0));
    const Sge to[] = {{.addr = Va{base}, .length = 100, .lkey = Lkey{key}}};
    REQUIRE(victim.b.send({.wr_id = 1,
                           .opcode = WrOpcode::rdma_read,
                           .signaled = true,
                           .sges = to,
                           .remote_addr = Va{5},
                           .rkey = Rkey{6}}));
    victim.b.transmit();
    victim.hears(wrong.segment);
    CHECK(victim.b.qp.sent_terminate() == wrong.reason);
    CHECK(victim.b.memory.at(key).bytes == victim.before);
    CHECK(victim.b.sent.take().status == WcStatus::wr_flush_err);
  }
}

TEST_CASE("every reason that a stream can give is provoked here") {
  std::set<TerminateReason> provoked;
  for (const Row& row : rows) {
    provoked.insert(row.reason);
  }
  // Told by others: what a request of ours met at home (stream_qp_test.cpp),
  // what is wrong with atomics (stream_extensions_test.cpp), what start frames
  // say (the connection manager), and what nothing here can cause.
  const std::set<TerminateReason> elsewhere{
      TerminateReason::rdmap_local_catastrophic,     TerminateReason::llp_start_frame,
      TerminateReason::llp_ird_insufficient,         TerminateReason::llp_no_matching_rtr,
      TerminateReason::rdmap_protection_unspecified, TerminateReason::rdmap_catastrophic_stream,
      TerminateReason::rdmap_catastrophic_global,    TerminateReason::rdmap_operation_invalidate,
      TerminateReason::rdmap_operation_unspecified,  TerminateReason::llp_stream_lost,
      TerminateReason::llp_local_catastrophic};
  for (std::size_t i = 0; i <= static_cast<std::size_t>(TerminateReason::llp_no_matching_rtr);
       ++i) {
    const auto reason = static_cast<TerminateReason>(i);
    INFO(name_of(reason));
    CHECK(provoked.contains(reason) != elsewhere.contains(reason));
  }
}

}  // namespace verbena::test
