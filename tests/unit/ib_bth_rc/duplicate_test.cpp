// Requests that come twice: never executed again, always answered again (IBTA vol 1, 9.7.5.1.4).
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/pair.h"
#include "tests/support/scripted_peer.h"

namespace verbena::test {

using ib::Opcode;

TEST_CASE("a duplicate SEND takes no receive and is acknowledged up to where the responder is") {
  ScriptedPeer peer;
  for (const std::uint64_t id : {1U, 2U, 3U}) {
    peer.post_recv(id, {{0, 64}});
  }
  peer.send(peer.request(Opcode::rc_send_only, 0), 8);
  peer.send(peer.request(Opcode::rc_send_only, 1), 9);
  CHECK(peer.host.completions() == Lines{"1 recv success +8", "2 recv success +9"});
  peer.answers();
  const RxVerdict verdict = peer.send(peer.request(Opcode::rc_send_only, 0), 8);
  CHECK(verdict.kind == RxVerdict::Kind::duplicate);
  CHECK(peer.answers() == Lines{"acknowledge 501 ack msn 2"});
  CHECK(peer.host.completions().empty());
  CHECK(peer.host.count(Counter::duplicate_request) == 1);
}

TEST_CASE("a duplicate WRITE does not write again") {
  ScriptedPeer peer;
  peer.send(peer.request(Opcode::rc_write_only, 0, 8), 8);
  std::ranges::fill(peer.host.bytes(0, 8), std::byte{1});
  peer.answers();
  peer.send(peer.request(Opcode::rc_write_only, 0, 8), 8);
  CHECK(peer.answers() == Lines{"acknowledge 500 ack msn 1"});
  CHECK(peer.host.bytes()[0] == std::byte{1});
}

TEST_CASE("a duplicate READ is read again") {
  // The peer hears the memory as it is now: a READ may be executed more than once.
  ScriptedPeer peer;
  peer.send(peer.request(Opcode::rc_read_request, 0, 8));
  peer.packets();
  std::ranges::fill(peer.host.bytes(0, 8), std::byte{1});
  peer.send(peer.request(Opcode::rc_read_request, 0, 8));
  const auto packets = peer.packets();
  REQUIRE(packets.size() == 1);
  CHECK(to_text(packets[0]) == "read_response_only 500 +8 ack msn 1");
  CHECK(packets[0].payload()[0] == std::byte{1});
  CHECK(peer.host.count(Counter::rx_read_requests) == 1);
}

TEST_CASE("a READ may be asked again from any of its packets on") {
  ScriptedPeer peer;
  peer.send(peer.request(Opcode::rc_read_request, 0, 4000));
  peer.answers();
  auto again = peer.request(Opcode::rc_read_request, 2);
  again.reth = ib::Reth(peer.host.va(2048), peer.host.mr->rkey, 4000 - 2048);
  peer.send(again);
  CHECK(peer.answers() ==
        Lines{"read_response_first 502 +1024 ack msn 1", "read_response_last 503 +928 ack msn 1"});
}

TEST_CASE("a READ that is asked again for other memory than the first time is dropped") {
  ScriptedPeer peer;
  peer.send(peer.request(Opcode::rc_read_request, 0, 2000));
  peer.answers();
  auto other_address = peer.request(Opcode::rc_read_request, 0);
  other_address.reth = ib::Reth(peer.host.va(1), peer.host.mr->rkey, 2000);
  auto other_key = peer.request(Opcode::rc_read_request, 0);
  other_key.reth = ib::Reth(peer.host.va(), Rkey{1}, 2000);
  auto longer = peer.request(Opcode::rc_read_request, 0);
  longer.reth = ib::Reth(peer.host.va(), peer.host.mr->rkey, 2001);
  for (const auto& fields : {other_address, other_key, longer}) {
    CHECK(peer.send(fields).counter == Counter::rx_drop_duplicate);
  }
  CHECK(peer.answers().empty());
  CHECK(nic::state_of(peer.qp) == nic::QpState::rts);
}

TEST_CASE("a duplicate atomic is answered with the first result") {
  ScriptedPeer peer;
  store_u64(peer.host.bytes(), 0, 10);
  peer.send(peer.request(Opcode::rc_fetch_add, 0));
  peer.send(peer.request(Opcode::rc_fetch_add, 1));
  peer.packets();
  peer.send(peer.request(Opcode::rc_fetch_add, 0));
  const auto packets = peer.packets();
  REQUIRE(packets.size() == 1);
  CHECK(packets[0].fields.atomic_ack_eth.original() == 10);
  CHECK(load_u64(peer.host.bytes()) == 12);
}

TEST_CASE("READs and atomics are kept for replay as many as max_dest_rd_atomic says") {
  ScriptedPeer peer({.max_dest_rd_atomic = 2});
  for (std::int32_t n = 0; n < 3; ++n) {
    peer.send(peer.request(Opcode::rc_fetch_add, n));
  }
  peer.answers();
  CHECK(peer.send(peer.request(Opcode::rc_fetch_add, 0)).counter == Counter::rx_drop_duplicate);
  CHECK(peer.answers().empty());
  peer.send(peer.request(Opcode::rc_fetch_add, 1));
  peer.send(peer.request(Opcode::rc_fetch_add, 2));
  CHECK(peer.answers() ==
        Lines{"atomic_acknowledge 501 ack msn 2", "atomic_acknowledge 502 ack msn 3"});
}

TEST_CASE("a READ under the PSN of an atomic is no duplicate of it") {
  ScriptedPeer peer;
  peer.send(peer.request(Opcode::rc_fetch_add, 0));
  peer.answers();
  CHECK(peer.send(peer.request(Opcode::rc_read_request, 0, 8)).counter ==
        Counter::rx_drop_duplicate);
  CHECK(peer.answers().empty());
}

TEST_CASE("a duplicate inside a message that is coming in does not disturb it") {
  ScriptedPeer peer;
  peer.post_recv(1, {{0, 4096}});
  peer.send(peer.request(Opcode::rc_send_first, 0), 1024);
  peer.send(peer.request(Opcode::rc_send_first, 0), 1024);
  peer.send(peer.request(Opcode::rc_send_last, 1), 100);
  CHECK(peer.host.completions() == Lines{"1 recv success +1124"});
}

TEST_CASE("every packet of a conversation may come twice") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.duplicate(Side::a, any_packet(), Pair::always);
  pair.duplicate(Side::b, any_packet(), Pair::always);
  store_u64(pair.b.bytes(), 0, 0);
  pair.post_recv(Side::b, *qps.b, 7, {{8192, 4096}});
  pair.post_recv(Side::b, *qps.b, 8, {});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 3000}));
  pair.post(Side::a, *qps.a, pair.a.fetch_add(2, 4096, pair.b, 0, 1));
  pair.post(Side::a, *qps.a, pair.a.read(3, {8192, 3000}, pair.b, 16384));
  pair.post(Side::a, *qps.a, pair.a.write_imm(4, {0, 3000}, pair.b, 32768, 9));
  pair.run_until_idle();
  CHECK(pair.a.completions() ==
        Lines{"1 send success", "2 fetch_add success", "3 read success", "4 write success"});
  CHECK(pair.b.completions() ==
        Lines{"7 recv success +3000", "8 recv_write_imm success +3000 imm 9"});
  CHECK(load_u64(pair.b.bytes()) == 1);
  CHECK(std::ranges::equal(pair.a.bytes(8192, 3000), pair.b.bytes(16384, 3000)));
}

}  // namespace verbena::test
