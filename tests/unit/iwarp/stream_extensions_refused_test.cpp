// What becomes of immediate data and atomics (RFC 7306) that are wrong, that a
// peer refuses, or that it doesn't know.
#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

#include "tests/unit/iwarp/extended_pair.h"

namespace verbena::test {

using namespace extended;
using iwarp::MpaAgreement;
using iwarp::StreamQp;
using iwarp::StreamState;
using iwarp::TerminateReason;

TEST_CASE("what can't be posted: without the extensions, without depth, and what the RFC has not") {
  const Sge data[] = {piece(0, 8)};
  SendWr send = write_with_imm({}, 0);
  send.opcode = WrOpcode::send_with_imm;
  StreamPair plain;
  for (const SendWr& wr :
       {write_with_imm({}, 0), fetch_add(data, 0, 1), compare_swap(data, 0, 1, 2), send}) {
    CHECK(plain.a.send(wr).error() == PostError::opcode_unsupported);
  }
  Extended extended;
  CHECK(extended.a.send(send).error() == PostError::opcode_unsupported);
  SendWr inline_atomic = fetch_add(data, 0, 1);
  inline_atomic.inline_data = true;
  CHECK(extended.a.send(inline_atomic).error() == PostError::opcode_unsupported);
  MpaAgreement agreement = StreamPair::plain_agreement();
  agreement.depths = {};
  Extended shallow(agreement);
  CHECK(shallow.a.send(fetch_add(data, 0, 1)).error() == PostError::opcode_unsupported);
  CHECK(shallow.a.send(write_with_imm({}, 0)));
}

TEST_CASE("an atomic has eight bytes of memory that can be written, or fails at home") {
  struct Row {
    Sge sge;
    WcStatus status;
  };
  const Row rows[] = {
      {piece(0, 7), WcStatus::loc_len_err},
      {piece(0, 9), WcStatus::loc_len_err},
      {piece(region_bytes, 8), WcStatus::loc_prot_err},
      {{.addr = Va{base}, .length = 8, .lkey = Lkey{no_atomics_key}}, WcStatus::loc_prot_err},
  };
  for (const Row& row : rows) {
    Extended pair;
    const Sge sges[] = {row.sge};
    REQUIRE(pair.a.send(fetch_add(sges, 0, 1)));
    pair.a.transmit();
    CHECK(pair.a.sent.take().status == row.status);
    CHECK(pair.a.qp.sent_terminate() == TerminateReason::rdmap_local_catastrophic);
  }
}

TEST_CASE(
    "what is wrong with an atomic or immediate data is told by a TERMINATE, and does nothing") {
  struct Row {
    std::string name;
    std::vector<std::string> segments;
    TerminateReason reason;
    bool has_receive = true;
  };
  const Row rows[] = {
      {"atomic of a STag that nobody registered",
       {atomic_segment(1, 0xBAD, base)},
       TerminateReason::rdmap_stag},
      {"atomic past the end",
       {atomic_segment(1, key, base + region_bytes)},
       TerminateReason::rdmap_bounds},
      {"atomic without the right to",
       {atomic_segment(1, no_atomics_key, base)},
       TerminateReason::rdmap_access},
      {"atomic in another protection domain",
       {atomic_segment(1, other_pd_key, base)},
       TerminateReason::rdmap_stag_not_associated},
      {"atomic across the end of all addresses",
       {atomic_segment(1, key, 0xFFFF'FFFF'FFFF'FFFC)},
       TerminateReason::rdmap_offset_wrap},
      {"atomic that isn't aligned",
       {atomic_segment(1, key, base + 4)},
       TerminateReason::rdmap_operation_unspecified},
      {"atomic of an operation that doesn't exist",
       {atomic_segment(1, key, base, {.operation = 1})},
       TerminateReason::rdmap_opcode},
      {"atomic with a number that isn't next",
       {atomic_segment(2, key, base)},
       TerminateReason::ddp_untagged_msn_range},
      {"atomic in pieces",
       {atomic_segment(1, key, base, {}, "414a", 4)},
       TerminateReason::ddp_untagged_message_offset},
      {"atomic that more follows",
       {atomic_segment(1, key, base, {}, "014a")},
       TerminateReason::ddp_untagged_too_long},
      {"atomic with something behind it",
       {atomic_segment(1, key, base) + "00"},
       TerminateReason::ddp_untagged_too_long},
      {"more atomics than agreed",
       {atomic_segment(1, key, base), atomic_segment(2, key, base), atomic_segment(3, key, base),
        atomic_segment(4, key, base), atomic_segment(5, key, base)},
       TerminateReason::ddp_untagged_no_buffer},
      {"atomic in the wrong queue",
       {"414a" + hex32(0) + hex32(0) + atomic_segment(1, key, base).substr(20)},
       TerminateReason::ddp_untagged_queue},
      {"atomic too short for its header",
       {atomic_segment(1, key, base).substr(0, 2 * 69)},
       TerminateReason::llp_fpdu_length},
      {"response to nothing", {response_segment(1, 1)}, TerminateReason::rdmap_opcode},
      {"immediate data without a receive",
       {immediate_segment(1)},
       TerminateReason::ddp_untagged_no_buffer,
       false},
      {"immediate data with a number that isn't next",
       {immediate_segment(2)},
       TerminateReason::ddp_untagged_msn_range},
      {"immediate data that begins in the middle",
       {immediate_segment(1, 8, "4148", 8)},
       TerminateReason::ddp_untagged_message_offset},
      {"immediate data of nine bytes",
       {immediate_segment(1, 9)},
       TerminateReason::ddp_untagged_too_long},
      {"immediate data that more follows",
       {immediate_segment(1, 8, "0149")},
       TerminateReason::ddp_untagged_too_long},
      {"immediate data of seven bytes",
       {immediate_segment(1, 7)},
       TerminateReason::rdmap_operation_unspecified},
      {"immediate data in the middle of a SEND",
       {untagged("0143", 0, 1) + "00", immediate_segment(1)},
       TerminateReason::rdmap_opcode},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Extended pair;
    if (row.has_receive) {
      REQUIRE(pair.b.receive(1, {piece(100'000, 100)}));
    }
    const Bytes before = pair.b.memory.at(key).bytes;
    for (const std::string& segment : row.segments) {
      pair.b.on_stream(fpdu_around(segment));
    }
    CHECK(pair.b.qp.state() == StreamState::terminate);
    CHECK(pair.b.qp.sent_terminate() == row.reason);
    CHECK(std::ranges::equal(ByteView(pair.b.memory.at(key).bytes).first(100'000),
                             ByteView(before).first(100'000)));
    for (const Completion& completion : pair.b.received.completions) {
      CHECK(completion.status == WcStatus::wr_flush_err);
    }
    pair.b.transmit();
    const auto told = ulpdus_of(pair.b.out.all);
    REQUIRE(told.size() == 1);
    CHECK(told[0].starts_with("4147"));
  }
}

TEST_CASE("without the extensions each of the new messages is one that nobody expects") {
  for (const std::string& segment : {immediate_segment(1), immediate_segment(1, 8, "4149"),
                                     atomic_segment(1, key, base), response_segment(1, 1)}) {
    Extended pair(StreamPair::plain_agreement(), stream_limits);
    REQUIRE(pair.b.receive(1, {}));
    pair.b.on_stream(fpdu_around(segment));
    CHECK(pair.b.qp.sent_terminate() == TerminateReason::rdmap_opcode);
  }
}

TEST_CASE("an atomic that the queue pair doesn't permit is refused, whatever the memory permits") {
  StreamSide side(extended_limits);
  side.memory.add(key, base, 64, all_remote);
  side.qp.activate({.agreement = StreamPair::plain_agreement(), .pd = PdId{1}});
  side.on_stream(fpdu_around(atomic_segment(1, key, base)));
  CHECK(side.qp.sent_terminate() == TerminateReason::rdmap_access);
}

TEST_CASE("an atomic that the peer refuses fails with the reason, those around it are flushed") {
  struct Row {
    std::uint32_t rkey;
    StreamQp::Limits of_peer;
    WcStatus status;
  };
  const Row rows[] = {
      {no_atomics_key, extended_limits, WcStatus::rem_access_err},
      // It doesn't know what an atomic is.
      {key, stream_limits, WcStatus::rem_inv_req_err},
  };
  for (const Row& row : rows) {
    Extended pair(StreamPair::plain_agreement(), row.of_peer);
    const Sge data[] = {piece(0, 8)};
    SendWr refused = fetch_add(data, 16, 1);
    refused.rkey = Rkey{row.rkey};
    REQUIRE(pair.a.send(read_of(data, 16)));
    REQUIRE(pair.a.send(refused));
    REQUIRE(pair.a.send(read_of(data, 16)));
    pair.run();
    REQUIRE(pair.a.sent.completions.size() == 3);
    CHECK(pair.a.sent.completions[0].status == WcStatus::wr_flush_err);
    CHECK(pair.a.sent.completions[1].status == row.status);
    CHECK(pair.a.sent.completions[2].status == WcStatus::wr_flush_err);
    CHECK(pair.a.qp.failed_with() == row.status);
  }
}

TEST_CASE("immediate data that the peer doesn't know ends the stream, its WRITE is complete") {
  Extended pair(StreamPair::plain_agreement(), stream_limits);
  REQUIRE(pair.a.send(write_with_imm({}, 0)));
  pair.run();
  CHECK(pair.a.sent.take().status == WcStatus::success);
  CHECK(pair.a.qp.state() == StreamState::terminate);
  CHECK(pair.a.qp.received_terminate() == code_of(TerminateReason::rdmap_opcode));
}

TEST_CASE(
    "an answer to an atomic that isn't the one that is waited for ends the stream, and moves "
    "nothing") {
  struct Row {
    std::string segment;
    TerminateReason reason;
    WrOpcode waits_for = WrOpcode::atomic_fetch_and_add;
  };
  const Row rows[] = {
      {response_segment(2, 1), TerminateReason::ddp_untagged_msn_range},
      {response_segment(1, 1, "414b", 4), TerminateReason::ddp_untagged_message_offset},
      {response_segment(1, 1, "014b"), TerminateReason::ddp_untagged_too_long},
      {response_segment(1, 1) + "00", TerminateReason::ddp_untagged_too_long},
      {response_segment(1, 2), TerminateReason::rdmap_operation_unspecified},
      {response_segment(1, 1), TerminateReason::rdmap_opcode, WrOpcode::rdma_read},
      {"c142" + hex32(key) + hex64(base) + std::string(16, 'c'), TerminateReason::rdmap_opcode},
  };
  for (const Row& row : rows) {
    INFO(row.segment);
    Extended pair;
    const Bytes before = pair.a.memory.at(key).bytes;
    const Sge data[] = {piece(0, 8)};
    SendWr wr = fetch_add(data, 16, 1);
    wr.opcode = row.waits_for;
    REQUIRE(pair.a.send(wr));
    pair.a.transmit();
    pair.a.on_stream(fpdu_around(row.segment));
    CHECK(pair.a.qp.sent_terminate() == row.reason);
    CHECK(pair.a.memory.at(key).bytes == before);
    CHECK(pair.a.sent.take().status == WcStatus::wr_flush_err);
  }
}

TEST_CASE("memory that goes while an atomic is under way: told at whichever end it was") {
  const Sge data[] = {piece(0, 8)};
  {
    Extended pair;
    REQUIRE(pair.a.send(fetch_add(data, 16, 1)));
    pair.a.transmit();
    pair.a.memory.remove(key);
    pair.run();
    CHECK(pair.a.sent.take().status == WcStatus::loc_prot_err);
  }
  {
    // Behind a READ it waits for its turn.
    Extended pair;
    const Sge into[] = {piece(0, 8)};
    SendWr read = read_of(into, 0);
    read.rkey = Rkey{no_atomics_key};
    REQUIRE(pair.a.send(read));
    REQUIRE(pair.a.send(fetch_add(data, 16, 1)));
    pair.a.transmit();
    pair.b.on_stream(std::exchange(pair.a.out.bytes, {}));
    pair.b.memory.remove(key);
    pair.run();
    CHECK(pair.b.qp.sent_terminate() == TerminateReason::rdmap_stag);
    REQUIRE(pair.a.sent.completions.size() == 2);
    CHECK(pair.a.sent.completions[0].status == WcStatus::success);
    CHECK(pair.a.sent.completions[1].status == WcStatus::rem_access_err);
  }
}

}  // namespace verbena::test
