// READs and atomics in flight, and what a fence waits for (IBTA vol 1, 9.4.4, 9.7.4.1.6, 10.8.3.3).
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/pair.h"
#include "tests/support/scripted_peer.h"

namespace verbena::test {

using ib::Opcode;
using ib::Syndrome;

TEST_CASE("no more READs and atomics are in flight than max_rd_atomic") {
  ScriptedPeer peer({.max_rd_atomic = 2});
  peer.post(peer.host.read(1, {0, 8}, peer.host, 0));
  peer.post(peer.host.fetch_add(2, 0, peer.host, 0, 1));
  peer.post(peer.host.read(3, {0, 8}, peer.host, 0));
  peer.post(peer.host.write(4, {0, 8}, peer.host, 0));
  // The WRITE waits too: requests leave in the order of their posts.
  CHECK(peer.answers() == Lines{"read_request 100 len 8", "fetch_add 101"});
  peer.send(peer.response(Opcode::rc_read_response_only, Psn(100)), 8);
  CHECK(peer.answers() == Lines{"read_request 102 len 8", "write_only 103 +8 A"});
}

TEST_CASE("a READ takes as many PSNs as its response has packets") {
  ScriptedPeer peer;
  peer.post(peer.host.read(1, {0, 2500}, peer.host, 0));
  peer.post(peer.host.write(2, {0, 8}, peer.host, 0));
  CHECK(peer.answers() == Lines{"read_request 100 len 2500", "write_only 103 +8 A"});
}

TEST_CASE("with max_rd_atomic 0 a READ or atomic is refused at the post") {
  Pair pair;
  const Connection qps = pair.connect({.max_rd_atomic = 0});
  CHECK(pair.try_post(Side::a, *qps.a, pair.a.read(1, {0, 8}, pair.b, 0)).error() ==
        PostError::opcode_unsupported);
  CHECK(pair.try_post(Side::a, *qps.a, pair.a.fetch_add(1, 0, pair.b, 0, 1)).error() ==
        PostError::opcode_unsupported);
}

TEST_CASE("more READs at once than max_dest_rd_atomic are an invalid request") {
  // The host's way out is blocked, so that its answers to the first two wait.
  Pair pair;
  const Connection qps = pair.connect({.max_rd_atomic = 3}, {.max_dest_rd_atomic = 2});
  pair.set_room(Side::b, 0);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    pair.post(Side::a, *qps.a, pair.a.read(id, {0, 8}, pair.b, 0));
  }
  pair.settle();
  CHECK(nic::state_of(*qps.b) == nic::QpState::err);
  CHECK(pair.b.events() == Lines{"QP_REQ_ERR"});
  pair.set_room(Side::b, Pair::always);
  pair.run_until_idle();
  CHECK(pair.a.completions() ==
        Lines{"1 read success", "2 read success", "3 read rem_inv_req_err"});
}

TEST_CASE("with max_dest_rd_atomic 0 every READ is an invalid request") {
  ScriptedPeer peer({.max_dest_rd_atomic = 0});
  peer.send(peer.request(Opcode::rc_read_request, 0, 8));
  CHECK(peer.answers() == Lines{"acknowledge 500 nak 61 msn 0"});
}

TEST_CASE("READs follow each other without end through a responder that keeps one") {
  Pair pair;
  const Connection qps = pair.connect({.max_rd_atomic = 1}, {.max_dest_rd_atomic = 1});
  for (std::uint64_t id = 0; id < 50; ++id) {
    pair.post(Side::a, *qps.a, pair.a.read(id, {0, 3000}, pair.b, 0));
  }
  pair.run_until_idle();
  const auto completions = pair.a.poll();
  CHECK(completions.size() == 50);
  CHECK(std::ranges::all_of(completions, [](const Completion& completion) {
    return completion.status == WcStatus::success;
  }));
}

TEST_CASE("a fenced request waits for the READs and atomics before it") {
  ScriptedPeer peer;
  peer.post(peer.host.read(1, {0, 8}, peer.host, 0));
  peer.post(peer.host.fetch_add(2, 0, peer.host, 0, 1));
  Work fenced = peer.host.send(3, {0, 8});
  fenced.fence = true;
  peer.post(fenced);
  CHECK(peer.answers() == Lines{"read_request 100 len 8", "fetch_add 101"});
  peer.send(peer.response(Opcode::rc_read_response_only, Psn(100)), 8);
  CHECK(peer.answers().empty());
  peer.send(peer.response(Opcode::rc_atomic_acknowledge, Psn(101)));
  CHECK(peer.answers() == Lines{"send_only 102 +8 A"});
}

TEST_CASE("a fence waits for no WRITE and no SEND") {
  ScriptedPeer peer;
  peer.post(peer.host.write(1, {0, 8}, peer.host, 0));
  Work fenced = peer.host.send(2, {0, 8});
  fenced.fence = true;
  peer.post(fenced);
  CHECK(peer.answers() == Lines{"write_only 100 +8 A", "send_only 101 +8 A"});
}

TEST_CASE("a fenced SEND may carry what the READ before it brought") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post_recv(Side::b, *qps.b, 7, {{4096, 64}});
  pair.post(Side::a, *qps.a, pair.a.read(1, {0, 64}, pair.b, 0));
  Work fenced = pair.a.send(2, {0, 64});
  fenced.fence = true;
  pair.post(Side::a, *qps.a, fenced);
  pair.run_until_idle();
  CHECK(std::ranges::equal(pair.b.bytes(4096, 64), pair.b.bytes(0, 64)));
}

TEST_CASE("an atomic with anything but eight bytes to answer into fails alone and first") {
  Pair pair;
  const Connection qps = pair.connect();
  Work atomic = pair.a.fetch_add(1, 0, pair.b, 0, 1);
  atomic.pieces[0].length = 4;
  const std::uint64_t before = load_u64(pair.b.bytes());
  pair.post(Side::a, *qps.a, atomic);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 fetch_add loc_len_err"});
  CHECK(load_u64(pair.b.bytes()) == before);
  CHECK(pair.log().empty());
}

TEST_CASE("an atomic on an address that is no multiple of eight is an invalid request") {
  // IBTA vol 1, 9.4.5.
  Pair pair;
  const Connection qps = pair.connect();
  pair.post(Side::a, *qps.a, pair.a.fetch_add(1, 0, pair.b, 4, 1));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 fetch_add rem_inv_req_err"});
  CHECK(pair.b.events() == Lines{"QP_REQ_ERR"});
}

}  // namespace verbena::test
