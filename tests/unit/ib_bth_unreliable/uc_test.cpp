// Unreliable connections: messages whole, and what a packet that is lost or refused costs.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/pair.h"

namespace verbena::test {

namespace {

constexpr EndOptions uc{.type = nic::QpType::uc};

Connection connect_uc(Pair& pair, const EndOptions& end_b = uc) { return pair.connect(uc, end_b); }

}  // namespace

TEST_CASE("SENDs and WRITEs go over an unreliable connection in packets that nobody acknowledges") {
  Pair pair;
  const Connection qps = connect_uc(pair);
  pair.post_recv(Side::b, *qps.b, 7, {{8192, 4096}});
  pair.post_recv(Side::b, *qps.b, 8, {});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 2500}));
  pair.post(Side::a, *qps.a, pair.a.write(2, {0, 1025}, pair.b, 0));
  pair.post(Side::a, *qps.a, pair.a.write_imm(3, {0, 5}, pair.b, 2048, 77));
  pair.run_until_idle();
  CHECK(pair.wire() == Lines{"> uc_send_first 100 +1024", "> uc_send_middle 101 +1024",
                             "> uc_send_last 102 +452", "> uc_write_first 103 +1024",
                             "> uc_write_last 104 +1", "> uc_write_only_imm 105 +5"});
  CHECK(pair.a.completions() == Lines{"1 send success", "2 write success", "3 write success"});
  CHECK(pair.b.completions() ==
        Lines{"7 recv success +2500", "8 recv_write_imm success +5 imm 77"});
  CHECK(std::ranges::equal(pair.a.bytes(0, 2500), pair.b.bytes(8192, 2500)));
  CHECK(std::ranges::equal(pair.a.bytes(0, 1025), pair.b.bytes(0, 1025)));
  CHECK(std::ranges::equal(pair.a.bytes(0, 5), pair.b.bytes(2048, 5)));
}

TEST_CASE("a lost packet costs its message and no other, whichever packet it is") {
  const std::uint32_t lost = GENERATE(101U, 102U, 103U);
  Pair pair;
  const Connection qps = connect_uc(pair);
  pair.post_recv(Side::b, *qps.b, 7, {{0, 4096}});
  pair.post_recv(Side::b, *qps.b, 8, {{4096, 4096}});
  pair.drop(Side::a, has_psn(lost));
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 10}));
  pair.post(Side::a, *qps.a, pair.a.send(2, {0, 3000}));
  pair.post(Side::a, *qps.a, pair.a.send(3, {0, 20}));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 send success", "2 send success", "3 send success"});
  CHECK(pair.b.completions() == Lines{"7 recv success +10", "8 recv success +20"});
  CHECK(pair.b.count(Counter::out_of_sequence) >= 1);
  CHECK(nic::state_of(*qps.b) == nic::QpState::rts);
}

TEST_CASE("a WRITE that is refused is dropped whole and changes nothing") {
  Pair pair;
  const Access access = GENERATE(all_access, Access::none);
  const Connection qps = connect_uc(pair, {.access = access, .type = nic::QpType::uc});
  const std::vector<std::byte> before(pair.b.bytes().begin(), pair.b.bytes().end());
  Work bad = pair.a.write(1, {0, 3000}, pair.b, 0);
  if (access == all_access) {
    bad.rkey = Rkey{to_value(bad.rkey) ^ 1};
  }
  pair.post(Side::a, *qps.a, bad);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write success"});
  CHECK(std::ranges::equal(pair.b.bytes(), before));
  const Counter expected =
      access == all_access ? Counter::resp_remote_access_errors : Counter::rx_drop_message;
  // The First is refused; the Middle and the Last belong to no message any more.
  CHECK(pair.b.count(expected) >= 1);
  CHECK(pair.verdicts(Side::b).size() == 3);
  CHECK(nic::state_of(*qps.b) == nic::QpState::rts);
  CHECK(pair.b.events().empty());
}

TEST_CASE(
    "a message that is too long, or finds no receive request, is dropped; the next one isn't") {
  Pair pair;
  const Connection qps = connect_uc(pair);
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 10}));
  pair.run_until_idle();
  CHECK(pair.b.count(Counter::out_of_buffer) == 1);
  pair.post_recv(Side::b, *qps.b, 7, {{0, 2000}});
  pair.post(Side::a, *qps.a, pair.a.send(2, {0, 2001}));
  pair.post(Side::a, *qps.a, pair.a.send(3, {0, 2000}));
  pair.run_until_idle();
  CHECK(pair.b.count(Counter::resp_local_length_error) == 1);
  CHECK(pair.b.completions() == Lines{"7 recv success +2000"});
}

TEST_CASE("what an unreliable connection can't do is refused when it is posted") {
  Pair pair;
  const Connection qps = connect_uc(pair);
  CHECK(pair.try_post(Side::a, *qps.a, pair.a.read(1, {0, 8}, pair.b, 0)).error() ==
        PostError::opcode_unsupported);
  CHECK(pair.try_post(Side::a, *qps.a, pair.a.fetch_add(1, 0, pair.b, 0, 1)).error() ==
        PostError::opcode_unsupported);
}

TEST_CASE("memory of its own that a request may not read ends the send queue alone") {
  Pair pair;
  const Connection qps = connect_uc(pair);
  Work bad = pair.a.send(1, {0, 8});
  bad.pieces[0].lkey = Lkey{0};
  pair.post(Side::a, *qps.a, bad);
  pair.post(Side::a, *qps.a, pair.a.send(2, {0, 8}));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 send loc_prot_err", "2 send wr_flush_err"});
  CHECK(nic::state_of(*qps.a) == nic::QpState::sqe);
  CHECK(pair.wire().empty());
  pair.post_recv(Side::a, *qps.a, 5, {{0, 64}});
  pair.post(Side::b, *qps.b, pair.b.send(3, {0, 8}));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"5 recv success +8"});
}

}  // namespace verbena::test
