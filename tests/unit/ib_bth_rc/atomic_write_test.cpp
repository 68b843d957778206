// ATOMIC WRITE: eight bytes that become visible at once (IBTA vol 1, annex A19.4).
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/pair.h"
#include "tests/support/scripted_peer.h"

namespace verbena::test {

using ib::Opcode;

namespace {

Work atomic_write(std::uint64_t id, const Host& from, const Host& to, std::uint64_t at) {
  Work work = from.write(id, {0, 8}, to, at);
  work.opcode = WrOpcode::atomic_write;
  return work;
}

}  // namespace

TEST_CASE("an ATOMIC WRITE carries its value and is answered by a READ response without data") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post(Side::a, *qps.a, atomic_write(1, pair.a, pair.b, 64));
  pair.run_until_idle();
  CHECK(pair.wire(Side::a) == Lines{"atomic_write 100 +8 A"});
  CHECK(pair.wire(Side::b) == Lines{"read_response_only 100 +0 ack msn 1"});
  CHECK(pair.a.completions() == Lines{"1 atomic_write success"});
  CHECK(std::ranges::equal(pair.b.bytes(64, 8), pair.a.bytes(0, 8)));
}

TEST_CASE("an ATOMIC WRITE whose answer is lost is answered again and not executed again") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.drop(Side::b, any_packet());
  pair.post(Side::a, *qps.a, atomic_write(1, pair.a, pair.b, 64));
  pair.settle();
  // The application goes on: a second execution would show.
  store_u64(pair.b.bytes(), 64, 5);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 atomic_write success"});
  CHECK(load_u64(pair.b.bytes(), 64) == 5);
}

TEST_CASE("an ATOMIC WRITE of another length than eight bytes fails at home") {
  Pair pair;
  const Connection qps = pair.connect();
  Work work = atomic_write(1, pair.a, pair.b, 64);
  work.pieces = {pair.a.sge({0, 4})};
  pair.post(Side::a, *qps.a, work);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 atomic_write loc_len_err"});
  CHECK(pair.wire().empty());
}

TEST_CASE("an ATOMIC WRITE is refused like a WRITE, and where it isn't aligned") {
  Pair pair;
  SECTION("not aligned") {
    const Connection qps = pair.connect();
    pair.post(Side::a, *qps.a, atomic_write(1, pair.a, pair.b, 4));
    pair.run_until_idle();
    CHECK(pair.a.completions() == Lines{"1 atomic_write rem_inv_req_err"});
  }
  SECTION("a queue pair that takes no WRITEs") {
    const Connection qps = pair.connect({}, {.access = Access::remote_read});
    pair.post(Side::a, *qps.a, atomic_write(1, pair.a, pair.b, 64));
    pair.run_until_idle();
    CHECK(pair.a.completions() == Lines{"1 atomic_write rem_inv_req_err"});
  }
  SECTION("a wrong key") {
    const Connection qps = pair.connect();
    Work work = atomic_write(1, pair.a, pair.b, 64);
    work.rkey = Rkey{1};
    pair.post(Side::a, *qps.a, work);
    pair.run_until_idle();
    CHECK(pair.a.completions() == Lines{"1 atomic_write rem_access_err"});
  }
}

TEST_CASE("an ATOMIC WRITE counts among the READs and atomics in flight") {
  Pair pair;
  const Connection qps = pair.connect({.max_rd_atomic = 1});
  pair.post(Side::a, *qps.a, atomic_write(1, pair.a, pair.b, 64));
  pair.post(Side::a, *qps.a, pair.a.read(2, {128, 8}, pair.b, 64));
  pair.advance(Duration(1));
  CHECK(pair.wire(Side::a) == Lines{"atomic_write 100 +8 A"});
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 atomic_write success", "2 read success"});
  CHECK(std::ranges::equal(pair.a.bytes(128, 8), pair.a.bytes(0, 8)));
}

}  // namespace verbena::test
