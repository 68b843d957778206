// One message of each kind, from post to completion: what goes over the wire, what lands where, and
// what both ends are told.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "tests/support/pair.h"

namespace verbena::test {

using ib::Opcode;

namespace {

std::vector<std::byte> copy_of(ByteView bytes) { return {bytes.begin(), bytes.end()}; }

/// Everything outside [offset, offset + count) is as it was.
bool is_untouched_outside(ByteView now, ByteView before, std::size_t offset, std::size_t count) {
  return std::ranges::equal(now.first(offset), before.first(offset)) &&
         std::ranges::equal(now.subspan(offset + count), before.subspan(offset + count));
}

}  // namespace

TEST_CASE("a SEND is received and acknowledged") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post_recv(Side::b, *qps.b, 7, {{0, 4096}});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 2500}));
  pair.run_until_idle();
  CHECK(pair.wire() == Lines{"> send_first 100 +1024", "> send_middle 101 +1024",
                             "> send_last 102 +452 A", "< acknowledge 102 ack msn 1"});
  CHECK(pair.a.completions() == Lines{"1 send success"});
  CHECK(pair.b.completions() == Lines{"7 recv success +2500"});
  CHECK(std::ranges::equal(pair.a.bytes(0, 2500), pair.b.bytes(0, 2500)));
}

TEST_CASE("a SEND with immediate delivers both") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post_recv(Side::b, *qps.b, 7, {{0, 4096}});
  pair.post_recv(Side::b, *qps.b, 8, {{0, 4096}});
  pair.post(Side::a, *qps.a, pair.a.send_imm(1, {0, 5}, 0x1122'3344));
  pair.post(Side::a, *qps.a, pair.a.send_imm(2, {0, 2000}, 9));
  pair.run_until_idle();
  CHECK(pair.wire(Side::a) ==
        Lines{"send_only_imm 100 +5 A", "send_first 101 +1024", "send_last_imm 102 +976 A"});
  CHECK(pair.a.completions() == Lines{"1 send success", "2 send success"});
  CHECK(pair.b.completions() ==
        Lines{"7 recv success +5 imm 287454020", "8 recv success +2000 imm 9"});
}

TEST_CASE("a WRITE lands at its address and nowhere else, and the target is told nothing") {
  Pair pair;
  const Connection qps = pair.connect();
  const auto before = copy_of(pair.b.bytes());
  pair.post(Side::a, *qps.a, pair.a.write(1, {16, 3001}, pair.b, 8));
  pair.run_until_idle();
  CHECK(pair.wire() == Lines{"> write_first 100 +1024", "> write_middle 101 +1024",
                             "> write_last 102 +953 A", "< acknowledge 102 ack msn 1"});
  CHECK(pair.a.completions() == Lines{"1 write success"});
  CHECK(pair.b.completions().empty());
  CHECK(std::ranges::equal(pair.a.bytes(16, 3001), pair.b.bytes(8, 3001)));
  CHECK(is_untouched_outside(pair.b.bytes(), before, 8, 3001));
}

TEST_CASE("a WRITE with immediate uses up a receive, whose length is that of the RETH") {
  // users.md row 31: byte_len of RECV_RDMA_WITH_IMM, also for no bytes at all.
  Pair pair;
  const Connection qps = pair.connect();
  for (const std::uint64_t id : {7U, 8U, 9U}) {
    pair.post_recv(Side::b, *qps.b, id, {});
  }
  pair.post(Side::a, *qps.a, pair.a.write_imm(1, {0, 2500}, pair.b, 0, 3));
  pair.post(Side::a, *qps.a, pair.a.write_imm(2, {0, 0}, pair.b, 0, 4));
  pair.post(Side::a, *qps.a, pair.a.write_imm(3, {0, 64}, pair.b, 0, 5));
  pair.run_until_idle();
  CHECK(pair.wire(Side::a) == Lines{"write_first 100 +1024", "write_middle 101 +1024",
                                    "write_last_imm 102 +452 A", "write_only_imm 103 +0 A",
                                    "write_only_imm 104 +64 A"});
  CHECK(pair.b.completions() == Lines{"7 recv_write_imm success +2500 imm 3",
                                      "8 recv_write_imm success +0 imm 4",
                                      "9 recv_write_imm success +64 imm 5"});
}

TEST_CASE("a READ brings the peer's bytes") {
  Pair pair;
  const Connection qps = pair.connect();
  const auto before = copy_of(pair.a.bytes());
  pair.post(Side::a, *qps.a, pair.a.read(1, {16, 3001}, pair.b, 8));
  pair.run_until_idle();
  CHECK(pair.wire() ==
        Lines{"> read_request 100 len 3001", "< read_response_first 100 +1024 ack msn 1",
              "< read_response_middle 101 +1024", "< read_response_last 102 +953 ack msn 1"});
  CHECK(pair.a.completions() == Lines{"1 read success"});
  CHECK(std::ranges::equal(pair.a.bytes(16, 3001), pair.b.bytes(8, 3001)));
  CHECK(is_untouched_outside(pair.a.bytes(), before, 16, 3001));
}

TEST_CASE("atomics change the peer's number and bring what it was") {
  Pair pair;
  const Connection qps = pair.connect();
  store_u64(pair.b.bytes(), 8, 40);
  pair.post(Side::a, *qps.a, pair.a.fetch_add(1, 0, pair.b, 8, 2));
  pair.post(Side::a, *qps.a, pair.a.compare_swap(2, 8, pair.b, 8, 42, 7));
  pair.post(Side::a, *qps.a, pair.a.compare_swap(3, 16, pair.b, 8, 42, 99));
  pair.run_until_idle();
  CHECK(pair.a.completions() ==
        Lines{"1 fetch_add success", "2 comp_swap success", "3 comp_swap success"});
  CHECK(load_u64(pair.a.bytes(), 0) == 40);
  CHECK(load_u64(pair.a.bytes(), 8) == 42);
  CHECK(load_u64(pair.a.bytes(), 16) == 7);
  CHECK(load_u64(pair.b.bytes(), 8) == 7);
}

TEST_CASE("messages without bytes are messages") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post_recv(Side::b, *qps.b, 7, {});
  Work nothing = pair.a.send(1, {0, 0});
  nothing.pieces.clear();
  pair.post(Side::a, *qps.a, nothing);
  pair.post(Side::a, *qps.a, pair.a.write(2, {0, 0}, pair.b, 0));
  pair.post(Side::a, *qps.a, pair.a.read(3, {0, 0}, pair.b, 0));
  pair.run_until_idle();
  CHECK(pair.wire(Side::a) ==
        Lines{"send_only 100 +0 A", "write_only 101 +0 A", "read_request 102 len 0"});
  CHECK(pair.a.completions() == Lines{"1 send success", "2 write success", "3 read success"});
  CHECK(pair.b.completions() == Lines{"7 recv success +0"});
}

TEST_CASE("a WRITE or READ without bytes names no memory, so its key is not looked at") {
  // IBTA vol 1, 9.7.4.1.5: R_Key checking is for requests of at least one byte (C9-88).
  Pair pair;
  const Connection qps = pair.connect();
  Work write = pair.a.write(1, {0, 0}, pair.b, 0);
  write.rkey = Rkey{0xDEAD};
  Work read = pair.a.read(2, {0, 0}, pair.b, 0);
  read.rkey = Rkey{0xDEAD};
  pair.post(Side::a, *qps.a, write);
  pair.post(Side::a, *qps.a, read);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write success", "2 read success"});
}

TEST_CASE("inline data is the posting program's at the time of the post") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post_recv(Side::b, *qps.b, 7, {{0, 4096}});
  std::array<char, 6> text{"hello"};
  std::array<char, 6> more{"there"};
  Work work = pair.a.send(1, {});
  work.inline_data = true;
  work.pieces = {{.addr = Va{reinterpret_cast<std::uintptr_t>(text.data())}, .length = 5},
                 {.addr = Va{}, .length = 0},
                 {.addr = Va{reinterpret_cast<std::uintptr_t>(more.data())}, .length = 5}};
  pair.post(Side::a, *qps.a, work);
  text.fill('x');
  more.fill('x');
  pair.run_until_idle();
  CHECK(pair.b.completions() == Lines{"7 recv success +10"});
  const auto got = pair.b.bytes(0, 10);
  CHECK(std::string(reinterpret_cast<const char*>(got.data()), got.size()) == "hellothere");
}

TEST_CASE("thirty-two SGEs are gathered and scattered, those without bytes too") {
  Pair pair;
  const Connection qps = pair.connect();
  Work work = pair.a.send(1, {});
  work.pieces.clear();
  std::vector<Piece> into;
  std::vector<std::byte> expected;
  for (std::uint32_t i = 0; i < 32; ++i) {
    const Piece from{std::uint64_t{i} * 1000, i % 5 == 0 ? 0U : i * 7};
    work.pieces.push_back(pair.a.sge(from));
    const MutableBytes bytes = pair.a.bytes(from.offset, from.bytes);
    expected.insert(expected.end(), bytes.begin(), bytes.end());
    into.push_back({std::uint64_t{31 - i} * 1024, i == 3 ? 0U : 100U});
  }
  pair.post_recv(Side::b, *qps.b, 7, into);
  pair.post(Side::a, *qps.a, work);
  pair.run_until_idle();
  REQUIRE(pair.b.completions() == Lines{"7 recv success +" + std::to_string(expected.size())});
  std::vector<std::byte> got;
  for (const Piece& piece : into) {
    const MutableBytes bytes = pair.b.bytes(piece.offset, piece.bytes);
    got.insert(got.end(), bytes.begin(), bytes.end());
  }
  got.resize(expected.size());
  CHECK(got == expected);
}

TEST_CASE("an unsignalled request completes in silence") {
  Pair pair;
  const Connection qps = pair.connect();
  Work quiet = pair.a.write(1, {0, 8}, pair.b, 0);
  quiet.signaled = false;
  pair.post(Side::a, *qps.a, quiet);
  pair.post(Side::a, *qps.a, pair.a.write(2, {0, 8}, pair.b, 0));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"2 write success"});
}

TEST_CASE("a queue pair that signals all completes all") {
  Pair pair;
  const Connection qps = pair.connect({.signal_all = true});
  Work quiet = pair.a.write(1, {0, 8}, pair.b, 0);
  quiet.signaled = false;
  pair.post(Side::a, *qps.a, quiet);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write success"});
}

TEST_CASE("the solicited event bit is in the last packet only") {
  // IBTA vol 1, 9.2.3.
  Pair pair;
  const Connection qps = pair.connect();
  pair.post_recv(Side::b, *qps.b, 7, {{0, 4096}});
  Work work = pair.a.send(1, {0, 1500});
  work.solicited = true;
  pair.post(Side::a, *qps.a, work);
  pair.run_until_idle();
  CHECK(pair.wire(Side::a) == Lines{"send_first 100 +1024", "send_last 101 +476 A SE"});
}

TEST_CASE("a WRITE asks for a solicited event only if it has an immediate") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post_recv(Side::b, *qps.b, 7, {});
  Work plain = pair.a.write(1, {0, 8}, pair.b, 0);
  Work with_imm = pair.a.write_imm(2, {0, 8}, pair.b, 0, 5);
  plain.solicited = with_imm.solicited = true;
  pair.post(Side::a, *qps.a, plain);
  pair.post(Side::a, *qps.a, with_imm);
  pair.run_until_idle();
  CHECK(pair.wire(Side::a) == Lines{"write_only 100 +8 A", "write_only_imm 101 +8 A SE"});
}

TEST_CASE("both directions of a connection work at once") {
  Pair pair;
  const Connection qps = pair.connect({}, {.sq_psn = Psn(500)});
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 2000}, pair.b, 8192));
  pair.post(Side::b, *qps.b, pair.b.read(2, {0, 2000}, pair.a, 4096));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write success"});
  CHECK(pair.b.completions() == Lines{"2 read success"});
  CHECK(std::ranges::equal(pair.a.bytes(0, 2000), pair.b.bytes(8192, 2000)));
  CHECK(std::ranges::equal(pair.a.bytes(4096, 2000), pair.b.bytes(0, 2000)));
}

TEST_CASE("completions of many queue pairs name theirs") {
  Pair pair;
  std::vector<Connection> connections;
  for (int i = 0; i < 8; ++i) {
    connections.push_back(pair.connect());
  }
  for (const Connection& qps : connections) {
    pair.post_recv(Side::b, *qps.b, to_value(nic::qpn_of(*qps.b)), {{0, 64}});
    pair.post(Side::a, *qps.a, pair.a.send(to_value(nic::qpn_of(*qps.a)), {0, 64}));
  }
  pair.run_until_idle();
  for (Host* const host : {&pair.a, &pair.b}) {
    const auto completions = host->poll();
    CHECK(completions.size() == connections.size());
    for (const Completion& completion : completions) {
      CHECK(completion.status == WcStatus::success);
      CHECK(completion.wr_id == to_value(completion.qpn));
    }
  }
}

}  // namespace verbena::test
