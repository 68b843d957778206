// Memory that is deregistered while messages use it: the rest of the message is refused, nothing
// else moves, both ends are told (users.md row 29).
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/pair.h"

namespace verbena::test {

namespace {

/// A region of its own over bytes [0, 8192) of a host, under VA 0.
nic::Mr& region_of(Host& host) {
  return **host.nic.reg_mr(*host.pd, host.bytes().data(), 8192, Va{0}, all_access);
}

std::vector<std::byte> copy_of(ByteView bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

TEST_CASE("the source of a SEND goes in the middle: loc_prot_err") {
  Pair pair;
  const Connection qps = pair.connect();
  nic::Mr& mr = region_of(pair.a);
  pair.post_recv(Side::b, *qps.b, 7, {{0, 8192}});
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  Work work = pair.a.send(2, {});
  work.pieces = {{Va{0}, 5000, mr.lkey}};
  pair.post(Side::a, *qps.a, work);
  pair.set_room(Side::a, 3);
  pair.settle();
  REQUIRE(pair.a.nic.dereg_mr(mr));
  pair.set_room(Side::a, Pair::always);
  pair.run_until_idle();
  CHECK(pair.wire(Side::a).size() == 3);
  CHECK(pair.a.completions() == Lines{"1 write success", "2 send loc_prot_err"});
  CHECK(nic::state_of(*qps.a) == nic::QpState::err);
}

TEST_CASE("a request whose memory is gone fails as soon as it is the oldest, by a NAK too") {
  Pair pair;
  const Connection qps = pair.connect();
  nic::Mr& mr = region_of(pair.a);
  pair.post_recv(Side::b, *qps.b, 7, {{0, 8192}});
  pair.drop(Side::a, has_psn(101));
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  Work work = pair.a.send(2, {});
  work.pieces = {{Va{0}, 5000, mr.lkey}};
  pair.post(Side::a, *qps.a, work);
  pair.set_room(Side::a, 3);
  pair.advance(Duration(1));
  REQUIRE(pair.a.nic.dereg_mr(mr));
  pair.set_room(Side::a, Pair::always);
  pair.settle();
  CHECK(pair.wire(Side::b) == Lines{"acknowledge 101 nak 60 msn 1"});
  CHECK(pair.a.completions() == Lines{"1 write success", "2 send loc_prot_err"});
}

TEST_CASE("the target of a WRITE goes in the middle: NAK, and the rest isn't written") {
  Pair pair;
  const Connection qps = pair.connect();
  nic::Mr& mr = region_of(pair.b);
  Work work = pair.a.write(1, {0, 5000}, pair.b, 0);
  work.remote_addr = Va{0};
  work.rkey = mr.rkey;
  pair.post(Side::a, *qps.a, work);
  pair.set_room(Side::a, 2);
  pair.settle();
  const auto before = copy_of(pair.b.bytes());
  REQUIRE(pair.b.nic.dereg_mr(mr));
  pair.set_room(Side::a, Pair::always);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write rem_access_err"});
  CHECK(pair.b.events() == Lines{"QP_ACCESS_ERR"});
  CHECK(std::ranges::equal(pair.b.bytes(), before));
}

TEST_CASE("the source of a READ goes in the middle of the answer: NAK behind what was sent") {
  Pair pair;
  const Connection qps = pair.connect();
  nic::Mr& mr = region_of(pair.b);
  Work work = pair.a.read(1, {0, 5000}, pair.b, 0);
  work.remote_addr = Va{0};
  work.rkey = mr.rkey;
  pair.set_room(Side::b, 2);
  pair.post(Side::a, *qps.a, work);
  pair.settle();
  REQUIRE(pair.b.nic.dereg_mr(mr));
  pair.set_room(Side::b, Pair::always);
  pair.run_until_idle();
  CHECK(pair.wire(Side::b) == Lines{"read_response_first 100 +1024 ack msn 1",
                                    "read_response_middle 101 +1024",
                                    "acknowledge 102 nak 62 msn 1"});
  CHECK(pair.a.completions() == Lines{"1 read rem_access_err"});
  CHECK(pair.b.events() == Lines{"QP_ACCESS_ERR"});
  CHECK(nic::state_of(*qps.b) == nic::QpState::err);
}

TEST_CASE("the target of a READ goes before the answer comes: loc_prot_err, nothing written") {
  Pair pair;
  const Connection qps = pair.connect();
  nic::Mr& mr = region_of(pair.a);
  Work work = pair.a.read(1, {}, pair.b, 0);
  work.pieces = {{Va{0}, 500, mr.lkey}};
  pair.post(Side::a, *qps.a, work);
  pair.step();
  const auto before = copy_of(pair.a.bytes());
  REQUIRE(pair.a.nic.dereg_mr(mr));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 read loc_prot_err"});
  CHECK(std::ranges::equal(pair.a.bytes(), before));
}

TEST_CASE("the memory of a receive goes in the middle of the message: both ends err") {
  Pair pair;
  const Connection qps = pair.connect();
  nic::Mr& mr = region_of(pair.b);
  const Sge sge{Va{0}, 8192, mr.lkey};
  REQUIRE(pair.b.nic.post_recv(pair.now(), *qps.b, {.wr_id = 7, .sges = {&sge, 1}}));
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 5000}));
  pair.set_room(Side::a, 2);
  pair.settle();
  REQUIRE(pair.b.nic.dereg_mr(mr));
  pair.set_room(Side::a, Pair::always);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 send rem_op_err"});
  CHECK(pair.b.completions() == Lines{"7 recv loc_prot_err"});
}

TEST_CASE("a key of a region that is gone doesn't open the one in its place") {
  Pair pair;
  const Connection qps = pair.connect();
  nic::Mr& old = region_of(pair.b);
  const Rkey stale = old.rkey;
  REQUIRE(pair.b.nic.dereg_mr(old));
  nic::Mr& successor = region_of(pair.b);
  CHECK(to_value(successor.rkey) >> 8 == to_value(stale) >> 8);
  Work work = pair.a.write(1, {0, 8}, pair.b, 0);
  work.remote_addr = Va{0};
  work.rkey = stale;
  pair.post(Side::a, *qps.a, work);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write rem_access_err"});
}

}  // namespace verbena::test
