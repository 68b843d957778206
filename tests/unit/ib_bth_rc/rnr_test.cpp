// Receiver not ready: the timer, the retries, and going on where it stopped (IBTA vol
// 1, 9.7.5.2.8).
#include <catch2/catch.hpp>

#include "proto/ib_bth/aeth.h"
#include "tests/support/pair.h"
#include "tests/support/scripted_peer.h"

namespace verbena::test {

using ib::Opcode;
using ib::Syndrome;
using namespace std::chrono_literals;

TEST_CASE(
    "a SEND without a receive is refused with the responder's timer and sent again after it") {
  Pair pair;
  const Connection qps = pair.connect({}, {.min_rnr_timer = 12});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 200}));
  pair.advance(100us);
  pair.post_recv(Side::b, *qps.b, 7, {{0, 4096}});
  pair.run_until_idle();
  CHECK(pair.wire() == Lines{"> send_only 100 +200 A", "< acknowledge 100 rnr 12 msn 0",
                             "> send_only 100 +200 A", "< acknowledge 100 ack msn 1"});
  // The timer runs from the arrival of the RNR NAK: one round trip after the first SEND.
  CHECK(pair.log()[2].sent == Time{} + 2us + 640us);
  CHECK(pair.log()[2].note.cause == PacketNote::Cause::rnr);
  CHECK(pair.a.completions() == Lines{"1 send success"});
  CHECK(pair.b.completions() == Lines{"7 recv success +200"});
  CHECK(pair.a.count(Counter::rnr_nak_retry_err) == 1);
  CHECK(pair.b.count(Counter::send_rnr_err) == 1);
  CHECK(pair.b.count(Counter::out_of_buffer) == 1);
}

TEST_CASE("min_rnr_timer 0 is the longest time, not the shortest") {
  // users.md row 11.
  Pair pair;
  const Connection qps = pair.connect({}, {.min_rnr_timer = 0});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 8}));
  pair.advance(100us);
  pair.post_recv(Side::b, *qps.b, 7, {{0, 4096}});
  pair.run_until_idle();
  REQUIRE(pair.log().size() == 4);
  CHECK(pair.log()[2].sent - pair.log()[0].sent == 2us + 655'360us);
}

TEST_CASE("rnr_retry 2 allows three attempts") {
  // users.md row 9.
  Pair pair;
  const Connection qps = pair.connect({.rnr_retry = 2});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 8}));
  pair.run_until_idle();
  CHECK(pair.wire(Side::a) ==
        Lines{"send_only 100 +8 A", "send_only 100 +8 A", "send_only 100 +8 A"});
  CHECK(pair.a.completions() == Lines{"1 send rnr_retry_exc_err"});
  CHECK(nic::state_of(*qps.a) == nic::QpState::err);
  CHECK(pair.a.count(Counter::retry_rnr_exceeded_err) == 1);
}

TEST_CASE("rnr_retry 0 allows none") {
  Pair pair;
  const Connection qps = pair.connect({.rnr_retry = 0});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 8}));
  pair.run_until_idle();
  CHECK(pair.wire(Side::a).size() == 1);
  CHECK(pair.a.completions() == Lines{"1 send rnr_retry_exc_err"});
}

TEST_CASE("rnr_retry 7 has no end") {
  // users.md row 9: after a thousand RNR NAKs still RTS, then a receive is posted: success.
  Pair pair;
  const Connection qps = pair.connect({.rnr_retry = 7}, {.min_rnr_timer = 1});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 8}));
  while (pair.b.count(Counter::send_rnr_err) < 1000) {
    REQUIRE(pair.step());
  }
  CHECK(nic::state_of(*qps.a) == nic::QpState::rts);
  CHECK(pair.a.completions().empty());
  pair.post_recv(Side::b, *qps.b, 7, {{0, 64}});
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 send success"});
}

TEST_CASE("while the RNR timer runs nothing is sent and no ACK timeout counts") {
  Pair pair;
  const Connection qps = pair.connect({.timeout = 1, .retry_cnt = 0}, {.min_rnr_timer = 12});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 8}));
  pair.advance(500us);
  pair.post(Side::a, *qps.a, pair.a.write(2, {0, 8}, pair.b, 0));
  pair.advance(100us);
  CHECK(pair.wire(Side::a).size() == 1);
  CHECK(pair.a.count(Counter::local_ack_timeout_err) == 0);
}

TEST_CASE("requests behind one that is not received are not executed") {
  Pair pair;
  const Connection qps = pair.connect();
  const std::byte before = pair.b.bytes()[100];
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 8}));
  pair.post(Side::a, *qps.a, pair.a.write(2, {200, 8}, pair.b, 100));
  pair.advance(100us);
  CHECK(pair.b.bytes()[100] == before);
  pair.post_recv(Side::b, *qps.b, 7, {{0, 64}});
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 send success", "2 write success"});
  CHECK(std::ranges::equal(pair.b.bytes(100, 8), pair.a.bytes(200, 8)));
}

TEST_CASE("a WRITE with immediate waits for a receive with its last packet only") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post(Side::a, *qps.a, pair.a.write_imm(1, {0, 2500}, pair.b, 0, 5));
  pair.advance(100us);
  CHECK(std::ranges::equal(pair.b.bytes(0, 2048), pair.a.bytes(0, 2048)));
  pair.post_recv(Side::b, *qps.b, 7, {});
  pair.run_until_idle();
  CHECK(pair.wire() == Lines{"> write_first 100 +1024", "> write_middle 101 +1024",
                             "> write_last_imm 102 +452 A", "< acknowledge 102 rnr 12 msn 0",
                             "> write_last_imm 102 +452 A", "< acknowledge 102 ack msn 1"});
  CHECK(pair.b.completions() == Lines{"7 recv_write_imm success +2500 imm 5"});
  CHECK(std::ranges::equal(pair.b.bytes(0, 2500), pair.a.bytes(0, 2500)));
}

TEST_CASE("a lost RNR NAK costs a timeout and nothing else") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.drop(Side::b, nth(0));
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 8}));
  pair.advance(100us);
  pair.post_recv(Side::b, *qps.b, 7, {{0, 64}});
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 send success"});
  CHECK(pair.a.count(Counter::local_ack_timeout_err) == 1);
}

TEST_CASE("an RNR NAK that comes twice counts once") {
  // The second one answers nothing that was sent since the first.
  ScriptedPeer peer({.rnr_retry = 1});
  peer.post(peer.host.send(1, {0, 8}));
  const auto rnr = peer.response(Opcode::rc_acknowledge, Psn(100), Syndrome::rnr_nak(12));
  peer.send(rnr);
  CHECK(peer.send(rnr).kind == RxVerdict::Kind::dropped);
  CHECK(nic::state_of(peer.qp) == nic::QpState::rts);
  CHECK(peer.host.count(Counter::rnr_nak_retry_err) == 1);
}

TEST_CASE("progress gives the RNR retries back") {
  Pair pair;
  const Connection qps = pair.connect({.rnr_retry = 1}, {.min_rnr_timer = 1});
  for (std::uint64_t id = 0; id < 5; ++id) {
    pair.post(Side::a, *qps.a, pair.a.send(id, {0, 8}));
    pair.advance(3us);
    pair.post_recv(Side::b, *qps.b, id, {{0, 64}});
    pair.run_until_idle();
  }
  CHECK(pair.a.completions().size() == 5);
  CHECK(pair.a.count(Counter::rnr_nak_retry_err) == 5);
}

TEST_CASE("an RNR NAK acknowledges what is before it") {
  ScriptedPeer peer;
  peer.post(peer.host.send(1, {0, 8}));
  peer.post(peer.host.send(2, {0, 8}));
  peer.answers();
  peer.send(peer.response(Opcode::rc_acknowledge, Psn(101), Syndrome::rnr_nak(1)));
  CHECK(peer.host.completions() == Lines{"1 send success"});
  peer.advance(10us);
  CHECK(peer.answers() == Lines{"send_only 101 +8 A"});
}

}  // namespace verbena::test
