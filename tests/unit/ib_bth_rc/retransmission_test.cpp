// Losses and what repairs them: NAK, ACK timeout and implied NAK (IBTA vol 1, 9.7.5, 9.9.2).
#include <algorithm>
#include <catch2/catch.hpp>

#include "proto/ib_bth/aeth.h"
#include "tests/support/pair.h"
#include "tests/support/scripted_peer.h"

namespace verbena::test {

using ib::NakCode;
using ib::Opcode;
using ib::Syndrome;
using namespace std::chrono_literals;

TEST_CASE("a lost packet is asked for by a NAK and sent again with all that follows") {
  // users.md row 24.
  Pair pair;
  const Connection qps = pair.connect();
  pair.drop(Side::a, has_psn(101));
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 4000}, pair.b, 0));
  pair.run_until_idle();
  CHECK(pair.wire() == Lines{"> write_first 100 +1024", "> write_middle 101 +1024",
                             "> write_middle 102 +1024", "> write_last 103 +928 A",
                             "< acknowledge 101 nak 60 msn 0", "> write_middle 101 +1024",
                             "> write_middle 102 +1024", "> write_last 103 +928 A",
                             "< acknowledge 103 ack msn 1"});
  CHECK(pair.a.completions() == Lines{"1 write success"});
  CHECK(pair.a.count(Counter::packet_seq_err) == 1);
  CHECK(pair.a.count(Counter::retransmitted_pkts) == 3);
  CHECK(pair.b.count(Counter::out_of_sequence) == 2);
  CHECK(pair.b.count(Counter::rx_drop_out_of_sequence) == 1);
  const PacketNote& note = pair.log()[5].note;
  CHECK(note.kind == PacketNote::Kind::retransmission);
  CHECK(note.cause == PacketNote::Cause::nak_sequence);
  CHECK(note.attempt == 1);
}

TEST_CASE("a NAK for a gap says in words which PSN was expected and which came") {
  // users.md row 17.
  Pair pair;
  const Connection qps = pair.connect();
  pair.drop(Side::a, has_psn(101));
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 4000}, pair.b, 0));
  pair.run_until_idle();
  REQUIRE(pair.verdicts(Side::b).size() == 2);
  const RxVerdict& nak = pair.verdicts(Side::b)[0];
  CHECK(nak.kind == RxVerdict::Kind::nak);
  CHECK(nak.check == RxCheck::psn);
  CHECK(nak.expected == 101);
  CHECK(nak.got == 102);
  CHECK_THAT(describe(nak), Catch::Contains("0x65") && Catch::Contains("0x66"));
  const RxVerdict& drop = pair.verdicts(Side::b)[1];
  CHECK(drop.kind == RxVerdict::Kind::dropped);
  CHECK_THAT(describe(drop), Catch::Contains("0x65") && Catch::Contains("0x67") &&
                                 Catch::Contains("rx_drop_out_of_sequence"));
}

TEST_CASE("a NAK for a sequence error acknowledges everything before its PSN") {
  // users.md row 16.
  ScriptedPeer peer;
  for (std::uint64_t id = 10; id <= 12; ++id) {
    peer.post(peer.host.send(id, {0, 8}));
  }
  peer.answers();
  peer.send(peer.response(Opcode::rc_acknowledge, Psn(101),
                          Syndrome::nak(NakCode::psn_sequence_error), 1));
  CHECK(peer.host.completions() == Lines{"10 send success"});
  CHECK(peer.answers() == Lines{"send_only 101 +8 A", "send_only 102 +8 A"});
}

TEST_CASE("a frame whose ICRC is wrong is as good as lost") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.corrupt(Side::a, nth(0));
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 2000}, pair.b, 0));
  pair.run_until_idle();
  CHECK(pair.b.count(Counter::rx_icrc_encapsulated) == 1);
  CHECK(pair.a.completions() == Lines{"1 write success"});
}

TEST_CASE("without an answer a request is sent retry_cnt + 1 times, exactly a timeout apart") {
  constexpr std::uint8_t codes[] = {1, 8, 14, 20};
  constexpr std::uint8_t retry_cnts[] = {0, 1, 7};
  for (const std::uint8_t code : codes) {
    for (const std::uint8_t retry_cnt : retry_cnts) {
      INFO("timeout " << int{code} << ", retry_cnt " << int{retry_cnt});
      Pair pair;
      const Connection qps = pair.connect({.timeout = code, .retry_cnt = retry_cnt});
      pair.drop(Side::a, any_packet(), Pair::always);
      pair.post(Side::a, *qps.a, pair.a.send(1, {0, 8}));
      pair.run_until_idle();
      const Duration timeout = 4096ns * (1 << code);
      REQUIRE(pair.log().size() == retry_cnt + 1U);
      for (std::size_t i = 0; i < pair.log().size(); ++i) {
        CHECK(pair.log()[i].sent == Time{} + timeout * i);
      }
      CHECK(pair.now() == Time{} + timeout * (retry_cnt + 1));
      CHECK(pair.a.completions() == Lines{"1 send retry_exc_err"});
      CHECK(nic::state_of(*qps.a) == nic::QpState::err);
      CHECK(pair.a.count(Counter::local_ack_timeout_err) == retry_cnt + 1U);
      CHECK(pair.a.count(Counter::retry_exceeded_err) == 1);
    }
  }
}

TEST_CASE("as long as the peer has yet to read, no timeout costs a retry") {
  Pair pair;
  const Connection qps = pair.connect({.timeout = 8, .retry_cnt = 1});
  const Duration timeout = 4096ns * (1 << 8);
  pair.drop(Side::a, any_packet(), Pair::always);
  pair.set_unread(Side::a, true);
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 8}));
  pair.advance(timeout * 20);
  CHECK(pair.log().size() == 1);
  CHECK(pair.a.count(Counter::ack_timer_renewed) == 20);
  CHECK(pair.a.count(Counter::local_ack_timeout_err) == 0);

  pair.set_unread(Side::a, false);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 send retry_exc_err"});
  CHECK(pair.now() == Time{} + timeout * 22);
}

TEST_CASE("retransmissions tell their cause and count") {
  Pair pair;
  const Connection qps = pair.connect({.timeout = 8, .retry_cnt = 3});
  pair.drop(Side::a, any_packet(), Pair::always);
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 8}));
  pair.run_until_idle();
  REQUIRE(pair.log().size() == 4);
  CHECK(pair.log()[0].note.kind == PacketNote::Kind::plain);
  for (std::uint8_t i = 1; i < 4; ++i) {
    CHECK(pair.log()[i].note.kind == PacketNote::Kind::retransmission);
    CHECK(pair.log()[i].note.cause == PacketNote::Cause::timeout);
    CHECK(pair.log()[i].note.attempt == i);
  }
}

TEST_CASE("a timeout of 0 waits for ever") {
  Pair pair;
  const Connection qps = pair.connect({.timeout = 0});
  pair.drop(Side::a, nth(0));
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 8}));
  pair.run_until_idle();
  CHECK(pair.log().size() == 1);
  CHECK(pair.a.completions().empty());
  CHECK(pair.a.nic.next_timeout() == time_never);
}

TEST_CASE("progress gives the retries back") {
  // IBTA vol 1, 9.9.2.4.1: the counter is of one packet's attempts, not of the connection's.
  Pair pair;
  const Connection qps = pair.connect({.timeout = 8, .retry_cnt = 2});
  for (std::uint32_t psn = 100; psn < 120; ++psn) {
    pair.drop(Side::a, has_psn(psn), 2);
  }
  for (std::uint64_t id = 0; id < 20; ++id) {
    pair.post(Side::a, *qps.a, pair.a.write(id, {0, 8}, pair.b, 0));
    pair.run_until_idle();
  }
  CHECK(pair.a.completions().size() == 20);
  CHECK(nic::state_of(*qps.a) == nic::QpState::rts);
}

TEST_CASE("the timeout begins anew with each acknowledgement") {
  ScriptedPeer peer({.timeout = 8});
  const Duration timeout = 4096ns * 256;
  peer.post(peer.host.send(1, {0, 8}));
  peer.post(peer.host.send(2, {0, 8}));
  peer.answers();
  peer.advance(timeout - 1ns);
  peer.send(peer.response(Opcode::rc_acknowledge, Psn(100)));
  peer.advance(timeout - 1ns);
  CHECK(peer.answers().empty());
  peer.advance(1ns);
  CHECK(peer.answers() == Lines{"send_only 101 +8 A"});
}

TEST_CASE("nothing runs out when nothing is outstanding") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.run_until_idle();
  pair.advance(1h);
  CHECK(pair.log().size() == 2);
  CHECK(pair.a.count(Counter::local_ack_timeout_err) == 0);
}

TEST_CASE("a READ response lost in the middle is asked again from there at once") {
  // IBTA vol 1, 9.7.5.2.4: the next response implies a NAK.
  Pair pair;
  const Connection qps = pair.connect();
  pair.drop(Side::b, has_psn(101));
  pair.post(Side::a, *qps.a, pair.a.read(1, {0, 5000}, pair.b, 8));
  pair.run_until_idle();
  CHECK(pair.wire(Side::a) == Lines{"read_request 100 len 5000", "read_request 101 len 3976"});
  CHECK(pair.wire(Side::b) ==
        Lines{"read_response_first 100 +1024 ack msn 1", "read_response_middle 101 +1024",
              "read_response_middle 102 +1024", "read_response_middle 103 +1024",
              "read_response_last 104 +904 ack msn 1", "read_response_first 101 +1024 ack msn 1",
              "read_response_middle 102 +1024", "read_response_middle 103 +1024",
              "read_response_last 104 +904 ack msn 1"});
  CHECK(pair.a.completions() == Lines{"1 read success"});
  CHECK(std::ranges::equal(pair.a.bytes(0, 5000), pair.b.bytes(8, 5000)));
  CHECK(pair.a.count(Counter::implied_nak_seq_err) == 1);
  CHECK(pair.a.count(Counter::local_ack_timeout_err) == 0);
  CHECK(pair.b.count(Counter::rx_read_requests) == 1);
}

TEST_CASE("a lost READ response is replayed by the responder") {
  // users.md row 12, READ part: executed again from its PSN, with the right data.
  Pair pair;
  const Connection qps = pair.connect();
  pair.drop(Side::b, nth(0));
  pair.post(Side::a, *qps.a, pair.a.read(1, {0, 500}, pair.b, 8));
  pair.run_until_idle();
  CHECK(pair.wire() ==
        Lines{"> read_request 100 len 500", "< read_response_only 100 +500 ack msn 1",
              "> read_request 100 len 500", "< read_response_only 100 +500 ack msn 1"});
  CHECK(pair.log()[3].note.kind == PacketNote::Kind::replay);
  CHECK(pair.a.completions() == Lines{"1 read success"});
  CHECK(std::ranges::equal(pair.a.bytes(0, 500), pair.b.bytes(8, 500)));
}

TEST_CASE("an ACK behind a lost READ response is an implied NAK, not an answer") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.drop(Side::b, has_psn(101));
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.post(Side::a, *qps.a, pair.a.read(2, {512, 8}, pair.b, 256));
  pair.post(Side::a, *qps.a, pair.a.write(3, {0, 8}, pair.b, 8));
  pair.run_until_idle();
  CHECK(pair.a.count(Counter::implied_nak_seq_err) == 1);
  CHECK(pair.a.count(Counter::local_ack_timeout_err) == 0);
  CHECK(pair.a.completions() == Lines{"1 write success", "2 read success", "3 write success"});
  CHECK(std::ranges::equal(pair.a.bytes(512, 8), pair.b.bytes(256, 8)));
}

TEST_CASE("an atomic whose answer is lost is executed once") {
  // users.md row 12.
  Pair pair;
  const Connection qps = pair.connect();
  store_u64(pair.b.bytes(), 0, 0);
  pair.drop(Side::b, nth(0));
  pair.post(Side::a, *qps.a, pair.a.fetch_add(1, 64, pair.b, 0, 1));
  pair.run_until_idle();
  CHECK(pair.wire() == Lines{"> fetch_add 100", "< atomic_acknowledge 100 ack msn 1",
                             "> fetch_add 100", "< atomic_acknowledge 100 ack msn 1"});
  CHECK(load_u64(pair.b.bytes(), 0) == 1);
  CHECK(load_u64(pair.a.bytes(), 64) == 0);
  CHECK(pair.b.count(Counter::rx_atomic_requests) == 1);
  CHECK(pair.a.completions() == Lines{"1 fetch_add success"});
}

TEST_CASE("lost answers of several atomics are replayed in order, each with its own result") {
  Pair pair;
  const Connection qps = pair.connect();
  store_u64(pair.b.bytes(), 0, 0);
  pair.drop(Side::b, any_packet(), 4);
  for (std::uint64_t i = 0; i < 4; ++i) {
    pair.post(Side::a, *qps.a, pair.a.fetch_add(i, 64 + 8 * i, pair.b, 0, 1));
  }
  pair.run_until_idle();
  for (std::uint64_t i = 0; i < 4; ++i) {
    CHECK(load_u64(pair.a.bytes(), 64 + 8 * i) == i);
  }
  CHECK(load_u64(pair.b.bytes(), 0) == 4);
}

TEST_CASE("an ACK that arrives late is no cause for anything") {
  Pair pair;
  const Connection qps = pair.connect({.timeout = 1});
  pair.delay(Side::b, nth(0), 10us);
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.post(Side::a, *qps.a, pair.a.write(2, {0, 8}, pair.b, 8));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write success", "2 write success"});
  CHECK(nic::state_of(*qps.a) == nic::QpState::rts);
}

TEST_CASE("requests that overtake each other arrive in order in the end") {
  Pair pair;
  const Connection qps = pair.connect();
  for (std::uint64_t id = 1; id <= 4; ++id) {
    pair.post_recv(Side::b, *qps.b, id, {{0, 64}});
  }
  pair.delay(Side::a, has_psn(101), 5us);
  for (std::uint32_t id = 1; id <= 4; ++id) {
    pair.post(Side::a, *qps.a, pair.a.send(id, {0, id}));
  }
  pair.run_until_idle();
  CHECK(pair.b.completions() ==
        Lines{"1 recv success +1", "2 recv success +2", "3 recv success +3", "4 recv success +4"});
  CHECK(pair.a.completions() ==
        Lines{"1 send success", "2 send success", "3 send success", "4 send success"});
}

TEST_CASE("a response that fits nothing outstanding ends the connection with bad_resp_err") {
  // IBTA vol 1, 9.9.2.4.2: a response that contradicts the request.
  ScriptedPeer peer;
  peer.post(peer.host.write(1, {0, 8}, peer.host, 0));
  peer.send(peer.response(Opcode::rc_read_response_only, Psn(100)), 8);
  CHECK(peer.host.completions() == Lines{"1 write bad_resp_err"});
  CHECK(nic::state_of(peer.qp) == nic::QpState::err);
}

TEST_CASE("a READ response of the wrong length ends the connection and moves nothing") {
  for (const std::size_t bytes : {0, 7, 9, 1024}) {
    INFO(bytes);
    ScriptedPeer peer;
    const std::vector<std::byte> before(peer.host.bytes().begin(), peer.host.bytes().end());
    peer.post(peer.host.read(1, {0, 8}, peer.host, 0));
    peer.send(peer.response(Opcode::rc_read_response_only, Psn(100)), bytes);
    CHECK(peer.host.completions() == Lines{"1 read bad_resp_err"});
    CHECK(std::ranges::equal(peer.host.bytes(), before));
  }
}

TEST_CASE("a READ response says Last where the READ ends and nowhere else") {
  ScriptedPeer early;
  early.post(early.host.read(1, {0, 3000}, early.host, 0));
  early.send(early.response(Opcode::rc_read_response_only, Psn(100)), 1024);
  CHECK(early.host.completions() == Lines{"1 read bad_resp_err"});

  ScriptedPeer late;
  late.post(late.host.read(1, {0, 8}, late.host, 0));
  late.send(late.response(Opcode::rc_read_response_first, Psn(100)), 8);
  CHECK(late.host.completions() == Lines{"1 read bad_resp_err"});
}

TEST_CASE("a NAK with a reserved code ends the connection with bad_resp_err") {
  ScriptedPeer peer;
  peer.post(peer.host.send(1, {0, 8}));
  peer.send(peer.response(Opcode::rc_acknowledge, Psn(100), Syndrome::from_byte(0x7F)));
  CHECK(peer.host.completions() == Lines{"1 send bad_resp_err"});
}

TEST_CASE("a reserved syndrome is dropped") {
  ScriptedPeer peer;
  peer.post(peer.host.send(1, {0, 8}));
  const RxVerdict verdict =
      peer.send(peer.response(Opcode::rc_acknowledge, Psn(100), Syndrome::from_byte(0x5F)));
  CHECK(verdict.kind == RxVerdict::Kind::dropped);
  CHECK(peer.host.completions().empty());
  CHECK(nic::state_of(peer.qp) == nic::QpState::rts);
}

}  // namespace verbena::test
