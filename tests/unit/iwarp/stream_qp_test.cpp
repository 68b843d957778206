// The queue pair over a stream: every operation end to end, the order of
// completions, how many READs are in flight, who may send first, and how a
// stream ends.
#include "proto/iwarp/stream_qp.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/iwarp/stream_pair.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::test {
namespace {

using iwarp::MpaAgreement;
using iwarp::RtrType;
using iwarp::StreamEnv;
using iwarp::StreamState;
using iwarp::TerminateReason;

constexpr std::uint32_t key = 0x100;
constexpr std::uint64_t base = 0x10'0000;
constexpr std::size_t region_bytes = 200'000;

Sge piece(std::uint64_t offset, std::uint32_t length) {
  return {.addr = Va{base + offset}, .length = length, .lkey = Lkey{key}};
}

/// Both sides with a region of different random bytes.
struct Connected : StreamPair {
  explicit Connected(const MpaAgreement& agreement = plain_agreement(),
                     std::size_t segment_bytes = 1460)
      : StreamPair(agreement, segment_bytes) {
    Prng prng(99);
    a.memory.add(key, base, region_bytes).bytes = random_bytes(prng, region_bytes);
    b.memory.add(key, base, region_bytes).bytes = random_bytes(prng, region_bytes);
  }
  [[nodiscard]] ByteView a_bytes(std::size_t offset, std::size_t count) {
    return ByteView(a.memory.at(key).bytes).subspan(offset, count);
  }
  [[nodiscard]] ByteView b_bytes(std::size_t offset, std::size_t count) {
    return ByteView(b.memory.at(key).bytes).subspan(offset, count);
  }
};

SendWr write_of(std::span<const Sge> sges, std::uint64_t to, std::uint64_t wr_id = 1) {
  return {.wr_id = wr_id,
          .opcode = WrOpcode::rdma_write,
          .signaled = true,
          .sges = sges,
          .remote_addr = Va{base + to},
          .rkey = Rkey{key}};
}

SendWr read_of(std::span<const Sge> sges, std::uint64_t from, std::uint64_t wr_id = 1) {
  SendWr wr = write_of(sges, from, wr_id);
  wr.opcode = WrOpcode::rdma_read;
  return wr;
}

SendWr send_of(std::span<const Sge> sges, std::uint64_t wr_id = 1) {
  return {.wr_id = wr_id, .opcode = WrOpcode::send, .signaled = true, .sges = sges};
}

constexpr std::uint32_t lengths[] = {0, 1, 3, 4, 63, 1423, 1424, 1425, 1436, 1437, 5000, 100'000};

}  // namespace

TEST_CASE(
    "a SEND of any length arrives in the receive, from several pieces "
    "into several pieces") {
  for (const std::uint32_t length : lengths) {
    INFO(length);
    Connected pair;
    const Sge from[] = {piece(10, length / 3), piece(50'000, length - length / 3)};
    REQUIRE(pair.b.receive(5, {piece(0, length / 2), piece(60'000, length - length / 2)}));
    REQUIRE(pair.a.send(send_of(from)));
    pair.run();
    const Completion sent = pair.a.sent.take();
    CHECK(sent.status == WcStatus::success);
    CHECK(sent.opcode == WcOpcode::send);
    const Completion received = pair.b.received.take();
    CHECK(received.status == WcStatus::success);
    CHECK(received.wr_id == 5);
    CHECK(received.byte_len == length);
    CHECK_FALSE(received.with_inv);
    Bytes expected;
    for (const Sge& sge : from) {
      const ByteView bytes = pair.a_bytes(to_value(sge.addr) - base, sge.length);
      expected.insert(expected.end(), bytes.begin(), bytes.end());
    }
    CHECK(std::ranges::equal(pair.b_bytes(0, length / 2), ByteView(expected).first(length / 2)));
    CHECK(std::ranges::equal(pair.b_bytes(60'000, length - length / 2),
                             ByteView(expected).subspan(length / 2)));
  }
}

TEST_CASE("a WRITE of any length arrives where it was sent, and nowhere else") {
  for (const std::uint32_t length : lengths) {
    INFO(length);
    Connected pair;
    const Bytes before = pair.b.memory.at(key).bytes;
    const Sge from[] = {piece(7, length)};
    REQUIRE(pair.a.send(write_of(from, 1000)));
    pair.run();
    CHECK(pair.a.sent.take().opcode == WcOpcode::rdma_write);
    CHECK(pair.b.received.completions.empty());
    CHECK(std::ranges::equal(pair.b_bytes(1000, length), pair.a_bytes(7, length)));
    CHECK(std::ranges::equal(pair.b_bytes(0, 1000), ByteView(before).first(1000)));
    CHECK(std::ranges::equal(pair.b_bytes(1000 + length, 1000),
                             ByteView(before).subspan(1000 + length, 1000)));
  }
}

TEST_CASE("a READ of any length brings the peer's bytes into all its pieces") {
  for (const std::uint32_t length : lengths) {
    INFO(length);
    Connected pair;
    const Sge to[] = {piece(0, length / 3), piece(70'000, length - length / 3)};
    REQUIRE(pair.a.send(read_of(to, 3000)));
    pair.run();
    CHECK(pair.a.sent.take().opcode == WcOpcode::rdma_read);
    CHECK(std::ranges::equal(pair.a_bytes(0, length / 3), pair.b_bytes(3000, length / 3)));
    CHECK(std::ranges::equal(pair.a_bytes(70'000, length - length / 3),
                             pair.b_bytes(3000 + length / 3, length - length / 3)));
  }
}

TEST_CASE("inline data is that of the moment of the post") {
  Connected pair;
  Bytes data = from_hex("0102030405");
  const Sge from[] = {{.addr = Va{reinterpret_cast<std::uintptr_t>(data.data())}, .length = 5}};
  SendWr wr = write_of(from, 0);
  wr.inline_data = true;
  REQUIRE(pair.a.send(wr));
  data.assign(5, std::byte{0});
  pair.run();
  CHECK(to_hex(pair.b_bytes(0, 5)) == "0102030405");
}

TEST_CASE("a solicited SEND makes a solicited event") {
  Connected pair;
  REQUIRE(pair.b.receive(1, {}));
  REQUIRE(pair.b.receive(2, {}));
  REQUIRE(pair.a.send(send_of({})));
  pair.run();
  CHECK(pair.b.received.solicited_events == 0);
  SendWr wr = send_of({});
  wr.solicited = true;
  REQUIRE(pair.a.send(wr));
  pair.run();
  CHECK(pair.b.received.solicited_events == 1);
}

TEST_CASE(
    "work completes in the order of posting: what follows a READ waits "
    "for its response") {
  Connected pair;
  const Sge data[] = {piece(0, 100)};
  REQUIRE(pair.b.receive(1, {piece(500, 100)}));
  REQUIRE(pair.a.send(write_of(data, 0, 1)));
  REQUIRE(pair.a.send(read_of(data, 0, 2)));
  REQUIRE(pair.a.send(send_of(data, 3)));
  pair.a.transmit();
  CHECK(pair.a.sent.completions.size() == 1);
  pair.run();
  REQUIRE(pair.a.sent.completions.size() == 3);
  for (std::uint64_t i = 0; i < 3; ++i) {
    CHECK(pair.a.sent.completions[i].wr_id == i + 1);
    CHECK(pair.a.sent.completions[i].status == WcStatus::success);
  }
}

TEST_CASE("work that isn't signaled completes in silence") {
  Connected pair;
  const Sge data[] = {piece(0, 100)};
  SendWr wr = write_of(data, 0);
  wr.signaled = false;
  REQUIRE(pair.a.send(wr));
  pair.run();
  CHECK(pair.a.sent.completions.empty());
  CHECK(std::ranges::equal(pair.b_bytes(0, 100), pair.a_bytes(0, 100)));
}

TEST_CASE("no more READs are in flight than agreed, and all are answered in order") {
  MpaAgreement agreement = StreamPair::plain_agreement();
  agreement.depths = {.ird = 2, .ord = 2};
  Connected pair(agreement);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const Sge to[] = {piece(i * 3000, 3000)};
    REQUIRE(pair.a.send(read_of(to, i * 3000, i)));
  }
  pair.a.transmit();
  CHECK(pair.a.out.commits == 2);
  pair.run();
  CHECK(pair.a.sent.completions.size() == 10);
  CHECK(std::ranges::equal(pair.a_bytes(0, 30'000), pair.b_bytes(0, 30'000)));
  CHECK(pair.b.qp.state() == StreamState::rts);
}

TEST_CASE("a fenced request waits for all READs before it") {
  Connected pair;
  const Sge data[] = {piece(0, 100)};
  REQUIRE(pair.a.send(read_of(data, 0, 1)));
  SendWr wr = write_of(data, 5000, 2);
  wr.fence = true;
  REQUIRE(pair.a.send(wr));
  pair.a.transmit();
  CHECK(pair.a.out.commits == 1);
  pair.run();
  CHECK(pair.a.sent.completions.size() == 2);
  // It sent what the READ brought.
  CHECK(std::ranges::equal(pair.b_bytes(5000, 100), pair.b_bytes(0, 100)));
}

TEST_CASE("without READ depth a READ can't be posted, everything else can") {
  MpaAgreement agreement = StreamPair::plain_agreement();
  agreement.depths = {};
  Connected pair(agreement);
  const Sge data[] = {piece(0, 100)};
  CHECK(pair.a.send(read_of(data, 0)).error() == PostError::opcode_unsupported);
  REQUIRE(pair.a.send(write_of(data, 0)));
  pair.run();
  CHECK(pair.a.sent.take().status == WcStatus::success);
}

TEST_CASE("a responder says nothing before it heard the initiator") {
  Connected pair;
  const Sge data[] = {piece(0, 10)};
  REQUIRE(pair.b.send(write_of(data, 0)));
  pair.b.transmit();
  CHECK(pair.b.out.bytes.empty());
  REQUIRE(pair.a.send(write_of(data, 100)));
  pair.run();
  CHECK(pair.b.sent.take().status == WcStatus::success);
}

TEST_CASE(
    "with an RTR the responder may send first, and no request is seen by "
    "the consumers") {
  for (const RtrType type : {RtrType::zero_length_fpdu, RtrType::write, RtrType::read}) {
    INFO(iwarp::name_of(type));
    MpaAgreement agreement = StreamPair::plain_agreement();
    agreement.rtr = type;
    Connected pair(agreement);
    const Sge data[] = {piece(0, 10)};
    REQUIRE(pair.b.send(write_of(data, 0)));
    pair.run();
    CHECK(pair.b.sent.take().status == WcStatus::success);
    CHECK(pair.a.sent.completions.empty());
    CHECK(pair.b.received.completions.empty());
    // READs work after it, with their own numbers.
    REQUIRE(pair.a.send(read_of(data, 50)));
    pair.run();
    CHECK(pair.a.sent.take().status == WcStatus::success);
    CHECK(pair.b.qp.state() == StreamState::rts);
  }
}

TEST_CASE("the RTR is the one that was settled, in bytes") {
  const std::pair<RtrType, std::string> rows[] = {
      {RtrType::zero_length_fpdu, "0000"},
      {RtrType::write, "000ec140000000000000000000000000"},
      {RtrType::read, "002e4141"},
  };
  for (const auto& [type, hex] : rows) {
    MpaAgreement agreement = StreamPair::plain_agreement();
    agreement.rtr = type;
    Connected pair(agreement);
    pair.a.transmit();
    CHECK(to_hex(pair.a.out.bytes).substr(0, hex.size()) == hex);
    CHECK(pair.a.out.commits == 1);
  }
}

TEST_CASE("messages are cut into FPDUs that fit a TCP segment") {
  for (const std::size_t segment_bytes : {std::size_t{536}, std::size_t{1448}, std::size_t{8948}}) {
    Connected pair(StreamPair::plain_agreement(), segment_bytes);
    const Sge data[] = {piece(0, 100'000)};
    REQUIRE(pair.a.send(write_of(data, 0)));
    std::size_t before = 0;
    for (std::size_t commits = 0; pair.a.sent.completions.empty(); ++commits) {
      pair.a.transmit(1);
      REQUIRE(pair.a.out.bytes.size() - before <= segment_bytes);
      before = pair.a.out.bytes.size();
    }
    pair.run();
    CHECK(std::ranges::equal(pair.b_bytes(0, 100'000), pair.a_bytes(0, 100'000)));
  }
}

TEST_CASE("a stream without room holds the sender back, and nothing is lost") {
  Connected pair;
  pair.a.out.room = 1500;
  pair.b.out.room = 1500;
  const Sge data[] = {piece(0, 20'000)};
  const Sge other[] = {piece(100'000, 20'000)};
  REQUIRE(pair.a.send(write_of(data, 0, 1)));
  REQUIRE(pair.a.send(read_of(other, 100'000, 2)));
  std::uint32_t fpdus_max = 100;
  StreamEnv env = pair.a.env();
  CHECK(pair.a.qp.poll_transmit(env, pair.a.out, fpdus_max) == iwarp::StreamTransmitted::blocked);
  CHECK(fpdus_max == 99);
  pair.run();
  CHECK(pair.a.sent.completions.size() == 2);
  CHECK(std::ranges::equal(pair.b_bytes(0, 20'000), pair.a_bytes(0, 20'000)));
  CHECK(std::ranges::equal(pair.a_bytes(100'000, 20'000), pair.b_bytes(100'000, 20'000)));
}

TEST_CASE("answers and requests take turns") {
  Connected pair;
  const Sge data[] = {piece(0, 14'000)};
  REQUIRE(pair.a.send(read_of(data, 0)));
  pair.a.transmit();
  pair.b.on_stream(std::exchange(pair.a.out.bytes, {}));
  REQUIRE(pair.b.send(write_of(data, 100'000)));
  pair.b.transmit(6);
  iwarp::FpduReceiver receiver({.markers = false, .crc = true});
  ByteView stream = pair.b.out.bytes;
  std::size_t responses = 0;
  for (int i = 0; i < 6; ++i) {
    const auto fpdu = receiver.next(stream);
    REQUIRE(fpdu);
    const auto segment = iwarp::SegmentView::parse((*fpdu)->ulpdu);
    responses += segment->opcode() == iwarp::RdmapOpcode::read_response ? 1 : 0;
  }
  CHECK(responses == 3);
}

TEST_CASE(
    "a connection that both close ends where it began, and receives are "
    "flushed") {
  Connected pair;
  const Sge data[] = {piece(0, 5000)};
  REQUIRE(pair.b.receive(4, {}));
  REQUIRE(pair.a.send(write_of(data, 0)));
  StreamEnv a = pair.a.env();
  StreamEnv b = pair.b.env();
  pair.a.qp.disconnect(a);
  CHECK(pair.a.send(write_of(data, 0)).error() == PostError::wrong_state);
  CHECK_FALSE(pair.a.qp.wants_close());
  pair.run();
  CHECK(pair.a.sent.take().status == WcStatus::success);
  CHECK(pair.a.qp.wants_close());
  pair.b.qp.on_stream_end(b);
  CHECK(pair.b.qp.state() == StreamState::closing);
  CHECK(pair.b.qp.wants_close());
  pair.a.qp.on_stream_closed(a);
  pair.b.qp.on_stream_closed(b);
  CHECK(pair.a.qp.state() == StreamState::idle);
  CHECK(pair.b.qp.state() == StreamState::idle);
  CHECK(pair.b.received.take().status == WcStatus::wr_flush_err);
}

TEST_CASE(
    "an end in the middle of an FPDU or of a message, or before an "
    "answer, is an error") {
  SECTION("in the middle of an FPDU") {
    Connected pair;
    const Sge data[] = {piece(0, 100)};
    REQUIRE(pair.a.send(write_of(data, 0)));
    pair.a.transmit();
    pair.b.on_stream(ByteView(pair.a.out.bytes).first(50));
    StreamEnv env = pair.b.env();
    pair.b.qp.on_stream_end(env);
    CHECK(pair.b.qp.state() == StreamState::error);
  }
  SECTION("in the middle of a message") {
    Connected pair;
    const Sge data[] = {piece(0, 5000)};
    REQUIRE(pair.b.receive(1, {piece(0, 5000)}));
    REQUIRE(pair.a.send(send_of(data)));
    pair.a.transmit(1);
    pair.b.on_stream(pair.a.out.bytes);
    StreamEnv env = pair.b.env();
    pair.b.qp.on_stream_end(env);
    CHECK(pair.b.qp.state() == StreamState::error);
    CHECK(pair.b.received.take().status == WcStatus::wr_flush_err);
  }
  SECTION("before an answer") {
    Connected pair;
    const Sge data[] = {piece(0, 100)};
    REQUIRE(pair.a.send(read_of(data, 0)));
    pair.a.transmit();
    StreamEnv env = pair.a.env();
    pair.a.qp.on_stream_end(env);
    CHECK(pair.a.qp.state() == StreamState::error);
    CHECK(pair.a.sent.take().status == WcStatus::wr_flush_err);
  }
}

TEST_CASE(
    "a lost stream flushes everything, in order, and so is what is "
    "posted after it") {
  Connected pair;
  const Sge data[] = {piece(0, 100)};
  REQUIRE(pair.a.receive(10, {}));
  REQUIRE(pair.a.send(read_of(data, 0, 1)));
  REQUIRE(pair.a.send(write_of(data, 0, 2)));
  pair.a.transmit();
  REQUIRE(pair.a.send(send_of(data, 3)));
  StreamEnv env = pair.a.env();
  pair.a.qp.on_stream_closed(env);
  CHECK(pair.a.qp.state() == StreamState::error);
  REQUIRE(pair.a.sent.completions.size() == 3);
  for (std::uint64_t i = 0; i < 3; ++i) {
    CHECK(pair.a.sent.completions[i].wr_id == i + 1);
    CHECK(pair.a.sent.completions[i].status == WcStatus::wr_flush_err);
  }
  CHECK(pair.a.received.take().wr_id == 10);
  REQUIRE(pair.a.send(send_of(data, 4)));
  REQUIRE(pair.a.receive(11, {}));
  CHECK(pair.a.sent.completions.back().wr_id == 4);
  CHECK(pair.a.received.take().status == WcStatus::wr_flush_err);
}

TEST_CASE(
    "a request whose own memory is gone fails alone, its followers are "
    "flushed") {
  Connected pair;
  const Sge data[] = {piece(0, 100)};
  const Sge bad[] = {{.addr = Va{base}, .length = 10, .lkey = Lkey{0xBAD}}};
  REQUIRE(pair.a.send(write_of(data, 0, 1)));
  REQUIRE(pair.a.send(send_of(bad, 2)));
  REQUIRE(pair.a.send(write_of(data, 0, 3)));
  pair.run();
  REQUIRE(pair.a.sent.completions.size() == 3);
  CHECK(pair.a.sent.completions[0].status == WcStatus::success);
  CHECK(pair.a.sent.completions[1].status == WcStatus::loc_prot_err);
  CHECK(pair.a.sent.completions[2].status == WcStatus::wr_flush_err);
  CHECK(pair.a.qp.state() == StreamState::terminate);
  CHECK(pair.a.qp.sent_terminate() == TerminateReason::rdmap_local_catastrophic);
  CHECK(pair.b.qp.received_terminate() == code_of(TerminateReason::rdmap_local_catastrophic));
  CHECK(pair.a.qp.wants_close());
  CHECK(pair.b.qp.wants_close());
}

TEST_CASE(
    "a READ that the peer refuses completes with an access error, what "
    "follows is flushed") {
  Connected pair;
  const Sge data[] = {piece(0, 100)};
  REQUIRE(pair.a.send(read_of(data, 0, 1)));
  // The first READ is answered before the bad one comes, or given up with it.
  const bool is_answered = GENERATE(true, false);
  if (is_answered) {
    pair.run();
  }
  SendWr bad = read_of(data, 0, 2);
  bad.rkey = Rkey{0xBAD};
  REQUIRE(pair.a.send(bad));
  REQUIRE(pair.a.send(write_of(data, 0, 3)));
  pair.run();
  REQUIRE(pair.a.sent.completions.size() == 3);
  CHECK(pair.a.sent.completions[0].status ==
        (is_answered ? WcStatus::success : WcStatus::wr_flush_err));
  CHECK(pair.a.sent.completions[1].status == WcStatus::rem_access_err);
  CHECK(pair.a.sent.completions[2].status == WcStatus::wr_flush_err);
  CHECK(pair.b.qp.sent_terminate() == TerminateReason::rdmap_stag);
}

TEST_CASE(
    "a READ whose memory goes before the answer comes fails, and nothing "
    "moves") {
  Connected pair;
  const Sge data[] = {piece(0, 100)};
  REQUIRE(pair.a.send(read_of(data, 0, 1)));
  pair.a.transmit();
  pair.a.memory.remove(key);
  pair.run();
  CHECK(pair.a.sent.take().status == WcStatus::loc_prot_err);
  CHECK(pair.a.qp.state() == StreamState::terminate);
}

TEST_CASE("a READ whose source goes before it is answered is refused") {
  Connected pair;
  const Sge data[] = {piece(0, 100)};
  REQUIRE(pair.a.send(read_of(data, 0, 1)));
  pair.a.transmit();
  pair.b.on_stream(std::exchange(pair.a.out.bytes, {}));
  pair.b.memory.remove(key);
  pair.run();
  CHECK(pair.b.qp.sent_terminate() == TerminateReason::rdmap_stag);
  CHECK(pair.a.sent.take().status == WcStatus::rem_access_err);
}

}  // namespace verbena::test
