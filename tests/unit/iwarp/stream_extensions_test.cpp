// RFC 7306 on a stream queue pair: WRITE with immediate data and atomics end to
// end and in bytes, and their order among READs.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/iwarp/extended_pair.h"

namespace verbena::test {

using namespace extended;
using iwarp::MpaAgreement;

TEST_CASE("a WRITE with immediate data writes, then takes a receive and tells how much it wrote") {
  for (const std::uint32_t length : {0U, 1U, 1424U, 1425U, 5000U, 100'000U}) {
    INFO(length);
    Extended pair;
    const Bytes before = pair.b.memory.at(key).bytes;
    REQUIRE(pair.b.receive(9, {piece(0, 100)}));
    const Sge from[] = {piece(0, length)};
    REQUIRE(pair.a.send(write_with_imm(from, 1000)));
    pair.run();
    const Completion sent = pair.a.sent.take();
    CHECK(sent.opcode == WcOpcode::rdma_write);
    CHECK(sent.status == WcStatus::success);
    const Completion received = pair.b.received.take();
    CHECK(received.wr_id == 9);
    CHECK(received.opcode == WcOpcode::recv_rdma_with_imm);
    CHECK(received.status == WcStatus::success);
    CHECK(received.with_imm);
    CHECK(received.imm_or_rkey == immediate);
    CHECK(received.byte_len == length);
    CHECK(pair.b.received.solicited_events == 0);
    const ByteView after = pair.b.memory.at(key).bytes;
    CHECK(std::ranges::equal(after.subspan(1000, length),
                             ByteView(pair.a.memory.at(key).bytes).first(length)));
    // The receive's own memory is left alone.
    CHECK(std::ranges::equal(after.first(1000), ByteView(before).first(1000)));
  }
}

TEST_CASE("solicited immediate data makes a solicited event") {
  Extended pair;
  REQUIRE(pair.b.receive(1, {}));
  SendWr wr = write_with_imm({}, 0);
  wr.solicited = true;
  REQUIRE(pair.a.send(wr));
  pair.run();
  CHECK(pair.b.received.take().with_imm);
  CHECK(pair.b.received.solicited_events == 1);
}

TEST_CASE(
    "immediate data and SENDs share a queue, and the length told is that of the WRITE before") {
  Extended pair;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    REQUIRE(pair.b.receive(id, {piece(500, 100)}));
  }
  const Sge data[] = {piece(0, 40)};
  REQUIRE(pair.a.send(write_with_imm(data, 0)));
  REQUIRE(pair.a.send({.opcode = WrOpcode::send, .sges = data}));
  REQUIRE(pair.a.send(write_with_imm({}, 0)));
  pair.run();
  // One that stands alone, as a peer may send it.
  pair.b.on_stream(fpdu_around(immediate_segment(4)));
  REQUIRE(pair.b.received.completions.size() == 4);
  const std::uint32_t expected[] = {40, 40, 0, 0};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(pair.b.received.completions[i].wr_id == i + 1);
    CHECK(pair.b.received.completions[i].byte_len == expected[i]);
    CHECK(pair.b.received.completions[i].with_imm == (i != 1));
  }
}

TEST_CASE("FetchAdd and CmpSwap change the peer's eight bytes and bring the value before") {
  struct Row {
    SendWr wr;
    WcOpcode opcode;
    std::uint64_t after;
  };
  constexpr std::uint64_t before = 0xFFFF'FFFF'0000'0005;
  const Row rows[] = {
      {fetch_add({}, 16, 3), WcOpcode::fetch_add, before + 3},
      {fetch_add({}, 16, ~std::uint64_t{0}), WcOpcode::fetch_add, before - 1},
      {compare_swap({}, 16, before, 99), WcOpcode::comp_swap, 99},
      {compare_swap({}, 16, before + 1, 99), WcOpcode::comp_swap, before},
  };
  for (const Row& row : rows) {
    Extended pair;
    set_number(pair.b, 16, before);
    const Sge into[] = {piece(8, 3), piece(64, 5)};
    SendWr wr = row.wr;
    wr.sges = into;
    REQUIRE(pair.a.send(wr));
    pair.run();
    const Completion sent = pair.a.sent.take();
    CHECK(sent.status == WcStatus::success);
    CHECK(sent.opcode == row.opcode);
    CHECK(sent.byte_len == 8);
    CHECK(number_at(pair.b, 16) == row.after);
    Bytes original;
    const ByteView here = pair.a.memory.at(key).bytes;
    original.insert(original.end(), here.begin() + 8, here.begin() + 11);
    original.insert(original.end(), here.begin() + 64, here.begin() + 69);
    CHECK(std::ranges::equal(original, bytes_of(before)));
    CHECK(pair.b.counters[Counter::rx_atomic_requests] == 1);
    CHECK(pair.b.received.completions.empty());
  }
}

TEST_CASE("the new messages, byte by byte") {
  Extended pair;
  REQUIRE(pair.b.receive(1, {}));
  set_number(pair.b, 16, 0x1122'3344'5566'7788);
  const Sge data[] = {piece(0, 8)};
  SendWr wr = write_with_imm({}, 0);
  wr.solicited = true;
  REQUIRE(pair.a.send(wr));
  REQUIRE(pair.a.send(fetch_add(data, 16, 5)));
  REQUIRE(pair.a.send(compare_swap(data, 16, 7, 9)));
  pair.run();
  const std::string ones(16, 'f');
  CHECK(ulpdus_of(pair.a.out.all) ==
        std::vector<std::string>{
            "c140" + hex32(key) + hex64(base),
            untagged("4149", 0, 1) + "0102030400000000",
            untagged("414a", 1, 1) + hex32(0) + hex32(1) + hex32(key) + hex64(base + 16) +
                hex64(5) + hex64(0) + hex64(0) + hex64(0),
            untagged("414a", 1, 2) + hex32(2) + hex32(2) + hex32(key) + hex64(base + 16) +
                hex64(9) + ones + hex64(7) + ones,
        });
  CHECK(ulpdus_of(pair.b.out.all) == std::vector<std::string>{
                                         untagged("414b", 3, 1) + hex32(1) + "1122334455667788",
                                         untagged("414b", 3, 2) + hex32(2) + "112233445566778d",
                                     });
}

TEST_CASE("masks choose what an atomic adds up, compares and swaps") {
  struct Row {
    std::uint64_t before;
    Masked masked;
    std::uint64_t after;
  };
  constexpr std::uint64_t ones = ~std::uint64_t{0};
  const Row rows[] = {
      // Eight fields of eight bits: no carry leaves one.
      {0xFF01'FF01'FF01'FF01,
       {0, 0x0101'0101'0101'0101, 0x8080'8080'8080'8080},
       0x0002'0002'0002'0002},
      {0x0000'0000'FFFF'FFFF, {0, 1, 0x0000'0000'8000'0000}, 0},
      {0x0000'0000'FFFF'FFFF, {0, 1, 0}, 0x0000'0001'0000'0000},
      // Compares nothing: what is a swap elsewhere.
      {77, {2, 5, ones, 0, 0}, 5},
      {0xAABB, {2, 0x1234, 0x00FF, 0xAA00, 0xFF00}, 0xAA34},
      {0xAABB, {2, 0x1234, 0x00FF, 0xAB00, 0xFF00}, 0xAABB},
  };
  for (const Row& row : rows) {
    Extended pair;
    set_number(pair.b, 8, row.before);
    pair.b.on_stream(fpdu_around(atomic_segment(1, key, base + 8, row.masked)));
    CHECK(number_at(pair.b, 8) == row.after);
    pair.b.transmit();
    CHECK(ulpdus_of(pair.b.out.all) ==
          std::vector<std::string>{untagged("414b", 3, 1) + hex32(77) + hex64(row.before)});
  }
}

TEST_CASE("READs and atomics are executed in the order of their posting") {
  Extended pair;
  set_number(pair.b, 0, 10);
  set_number(pair.b, 60'000, 20);
  const Sge whole[] = {piece(0, 70'000)};
  const Sge first[] = {piece(80'000, 8)};
  const Sge after[] = {piece(80'008, 8)};
  REQUIRE(pair.a.send(read_of(whole, 0)));
  REQUIRE(pair.a.send(fetch_add(first, 60'000, 1)));
  REQUIRE(pair.a.send(read_of(after, 60'000)));
  pair.run();
  CHECK(pair.a.sent.completions.size() == 3);
  // The READ's last segments left when the atomic had long come.
  CHECK(number_at(pair.a, 60'000) == 20);
  CHECK(number_at(pair.a, 80'000) == 20);
  CHECK(number_at(pair.a, 80'008) == 21);
}

TEST_CASE("what follows an atomic doesn't overtake it") {
  Extended pair;
  REQUIRE(pair.b.receive(1, {piece(500, 100)}));
  const Sge data[] = {piece(0, 8)};
  set_number(pair.b, 16, 1);
  REQUIRE(pair.a.send(fetch_add(data, 16, 1)));
  REQUIRE(pair.a.send({.opcode = WrOpcode::send, .sges = data}));
  pair.a.transmit();
  pair.b.on_stream(pair.a.out.bytes);
  // The peer has been told nothing yet, but its consumer may look.
  CHECK(pair.b.received.take().status == WcStatus::success);
  CHECK(number_at(pair.b, 16) == 2);
}

TEST_CASE("READs and atomics in flight are as many as agreed, and a fence waits for both") {
  MpaAgreement agreement = StreamPair::plain_agreement();
  agreement.depths = {.ird = 2, .ord = 2};
  Extended pair(agreement);
  const Sge data[] = {piece(0, 8)};
  REQUIRE(pair.a.send(fetch_add(data, 16, 1)));
  REQUIRE(pair.a.send(read_of(data, 16)));
  REQUIRE(pair.a.send(fetch_add(data, 16, 1)));
  SendWr fenced = write_with_imm({}, 0);
  fenced.fence = true;
  REQUIRE(pair.b.receive(1, {}));
  REQUIRE(pair.a.send(fenced));
  pair.a.transmit();
  CHECK(pair.a.out.commits == 2);
  CHECK(pair.a.sent.completions.empty());
  pair.run();
  CHECK(pair.a.sent.completions.size() == 4);
  CHECK(pair.b.received.take().with_imm);
}

namespace {

/// One of each new message is on its way.
struct Prepared : Extended {
  Prepared() {
    REQUIRE(b.receive(1, {}));
    set_number(b, 16, 1000);
    const Sge data[] = {piece(0, 8)};
    REQUIRE(a.send(write_with_imm(data, 64)));
    REQUIRE(a.send(fetch_add(data, 16, 5)));
    REQUIRE(a.send(compare_swap(data, 16, 1005, 7)));
    a.transmit();
  }
};

}  // namespace

TEST_CASE("every split of the new messages into two gives the same") {
  const auto feed = [](StreamSide& side, ByteView stream, std::size_t split) {
    side.on_stream(stream.first(split));
    side.on_stream(stream.subspan(split));
  };
  Prepared whole;
  const Bytes requests = whole.a.out.bytes;
  whole.b.on_stream(requests);
  whole.b.transmit();
  const Bytes answers = whole.b.out.bytes;
  for (std::size_t split = 0; split <= requests.size(); ++split) {
    Prepared pair;
    feed(pair.b, requests, split);
    pair.b.transmit();
    REQUIRE(pair.b.out.bytes == answers);
    REQUIRE(number_at(pair.b, 16) == 7);
    REQUIRE(pair.b.received.take().imm_or_rkey == immediate);
  }
  for (std::size_t split = 0; split <= answers.size(); ++split) {
    Prepared pair;
    feed(pair.a, answers, split);
    REQUIRE(pair.a.sent.completions.size() == 3);
    REQUIRE(number_at(pair.a, 0) == 1005);
  }
}

TEST_CASE("a stream without room holds immediate data and answers back, and nothing is lost") {
  Extended pair;
  pair.a.out.room = pair.b.out.room = 90;
  for (std::uint64_t id = 0; id < 5; ++id) {
    REQUIRE(pair.b.receive(id, {}));
    const Sge data[] = {piece(8 * id, 8)};
    REQUIRE(pair.a.send(write_with_imm(data, 64)));
    REQUIRE(pair.a.send(fetch_add(data, 16, 1)));
  }
  set_number(pair.b, 16, 0);
  pair.run();
  CHECK(pair.a.sent.completions.size() == 10);
  CHECK(pair.b.received.completions.size() == 5);
  CHECK(number_at(pair.b, 16) == 5);
  CHECK(number_at(pair.a, 32) == 4);
}

}  // namespace verbena::test
