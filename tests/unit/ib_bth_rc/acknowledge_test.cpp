// How requests are acknowledged: who asks when, what one ACK covers, message sequence numbers, the
// window, and that a clean link sees no repair at all.
#include <algorithm>
#include <catch2/catch.hpp>

#include "proto/ib_bth/rc_requester.h"
#include "tests/support/pair.h"
#include "tests/support/scripted_peer.h"

namespace verbena::test {

using ib::Opcode;
using ib::Syndrome;

TEST_CASE("the last packet of every message asks for an acknowledgement") {
  // users.md row 25: who waits for a completion must not wait for the next message.
  Pair pair;
  const Connection qps = pair.connect();
  pair.post_recv(Side::b, *qps.b, 7, {{0, 8192}});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 5000}));
  pair.post(Side::a, *qps.a, pair.a.write(2, {0, 5000}, pair.b, 0));
  pair.post(Side::a, *qps.a, pair.a.write(3, {0, 1}, pair.b, 0));
  pair.run_until_idle();
  for (const WirePacket& packet : pair.log()) {
    if (packet.from == Side::a) {
      CHECK(packet.fields.ack_request == packet.info().ends_message());
    }
  }
}

TEST_CASE("a long message asks on its way too, so that the window moves on") {
  Pair pair({.a = {.memory_bytes = 1 << 20}, .b = {.memory_bytes = 1 << 20}});
  const Connection qps = pair.connect({.mtu = nic::Mtu::mtu_256}, {.mtu = nic::Mtu::mtu_256});
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 300 * 256}, pair.b, 0));
  pair.run_until_idle();
  std::vector<std::uint32_t> asking;
  for (const WirePacket& packet : pair.log()) {
    if (packet.from == Side::a && packet.fields.ack_request) {
      asking.push_back(packet.fields.psn.value() - 100);
    }
  }
  CHECK(asking == std::vector<std::uint32_t>{63, 127, 191, 255, 299});
}

TEST_CASE("every request and response is in the migrated state") {
  // users.md row 4: hardware refuses MigReq 0.
  Pair pair;
  const Connection qps = pair.connect();
  pair.post_recv(Side::b, *qps.b, 7, {{0, 64}});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 64}));
  pair.post(Side::a, *qps.a, pair.a.read(2, {0, 64}, pair.b, 0));
  pair.post(Side::a, *qps.a, pair.a.fetch_add(3, 0, pair.b, 0, 1));
  pair.run_until_idle();
  CHECK(pair.log().size() == 5);  // The READ's response acknowledges the SEND as well.
  for (const WirePacket& packet : pair.log()) {
    CHECK(packet.fields.migrated);
  }
}

TEST_CASE("a packet that is not in the migrated state is accepted") {
  ScriptedPeer peer;
  auto fields = peer.request(Opcode::rc_write_only, 0, 4);
  fields.migrated = false;
  peer.send(fields, 4);
  CHECK(peer.answers() == Lines{"acknowledge 500 ack msn 1"});
}

TEST_CASE("one ACK covers all requests before it") {
  // IBTA vol 1, 9.7.5.1.2: coalescing.
  ScriptedPeer peer;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    peer.post(peer.host.send(id, {0, 8}));
  }
  CHECK(peer.host.completions().empty());
  peer.send(peer.response(Opcode::rc_acknowledge, Psn(102), Syndrome::ack(), 3));
  CHECK(peer.host.completions() == Lines{"1 send success", "2 send success", "3 send success"});
}

TEST_CASE("an ACK in the middle of a message completes only what is before it") {
  ScriptedPeer peer;
  peer.post(peer.host.send(1, {0, 8}));
  peer.post(peer.host.send(2, {0, 4000}));
  peer.send(peer.response(Opcode::rc_acknowledge, Psn(102)));
  CHECK(peer.host.completions() == Lines{"1 send success"});
  peer.send(peer.response(Opcode::rc_acknowledge, Psn(104)));
  CHECK(peer.host.completions() == Lines{"2 send success"});
}

TEST_CASE("an ACK for what was acknowledged, or was never sent, is dropped and counted") {
  ScriptedPeer peer;
  peer.post(peer.host.send(1, {0, 8}));
  peer.send(peer.response(Opcode::rc_acknowledge, Psn(100)));
  for (const std::uint32_t psn : {99U, 100U, 101U, 5000U}) {
    const RxVerdict verdict = peer.send(peer.response(Opcode::rc_acknowledge, Psn(psn)));
    CHECK(verdict.kind == RxVerdict::Kind::dropped);
  }
  CHECK(peer.host.count(Counter::rx_drop_stale_response) == 4);
  CHECK(peer.host.completions() == Lines{"1 send success"});
  CHECK(nic::state_of(peer.qp) == nic::QpState::rts);
}

TEST_CASE("the message sequence number counts completed messages, READs when they are accepted") {
  ScriptedPeer peer;
  peer.post_recv(7, {{0, 4096}});
  peer.send(peer.request(Opcode::rc_write_first, 0, 1500), 1024);
  peer.send(peer.request(Opcode::rc_write_last, 1), 476);
  peer.send(peer.request(Opcode::rc_read_request, 2, 8));
  peer.send(peer.request(Opcode::rc_send_only, 3), 8);
  peer.send(peer.request(Opcode::rc_fetch_add, 4));
  CHECK(peer.answers() == Lines{"acknowledge 500 ack msn 0", "acknowledge 501 ack msn 1",
                                "read_response_only 502 +8 ack msn 2", "acknowledge 503 ack msn 3",
                                "atomic_acknowledge 504 ack msn 4"});
}

TEST_CASE("a request that doesn't ask isn't acknowledged") {
  ScriptedPeer peer;
  auto fields = peer.request(Opcode::rc_write_only, 0, 4);
  fields.ack_request = false;
  peer.send(fields, 4);
  CHECK(peer.answers().empty());
  peer.send(peer.request(Opcode::rc_write_only, 1, 4), 4);
  CHECK(peer.answers() == Lines{"acknowledge 501 ack msn 2"});
}

TEST_CASE("no more packets are in flight than the window allows") {
  PairOptions options;
  options.a.memory_bytes = options.b.memory_bytes = 1 << 20;
  Pair pair(options);
  const Connection qps = pair.connect({.mtu = nic::Mtu::mtu_256}, {.mtu = nic::Mtu::mtu_256});
  pair.drop(Side::b, any_packet(), Pair::always);
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 1 << 20}, pair.b, 0));
  pair.settle();
  CHECK(pair.wire(Side::a).size() == ib::inflight_packets_max);
}

TEST_CASE("a clean link sees no retransmission and no error in a hundred thousand WRITEs") {
  // users.md row 14.
  PairOptions options;
  options.keep_log = false;
  Pair pair(options);
  const Connection qps = pair.connect();
  constexpr std::uint64_t count = 100'000;
  std::uint64_t posted = 0;
  std::uint64_t completed = 0;
  while (completed < count) {
    while (posted < count &&
           pair.try_post(Side::a, *qps.a, pair.a.write(posted, {0, 64}, pair.b, 0))) {
      ++posted;
    }
    pair.settle();
    for (const Completion& completion : pair.a.poll()) {
      REQUIRE(completion.status == WcStatus::success);
      REQUIRE(completion.wr_id == completed++);
    }
  }
  pair.run_until_idle();
  constexpr Counter traffic[] = {Counter::rx_write_requests, Counter::sent_pkts, Counter::rcvd_pkts,
                                 Counter::ack_deferred,      Counter::rx_bytes,  Counter::tx_bytes};
  for (Host* const host : {&pair.a, &pair.b}) {
    for (std::size_t i = 0; i < counter_count; ++i) {
      const auto counter = static_cast<Counter>(i);
      if (std::ranges::find(traffic, counter) == std::end(traffic)) {
        INFO(counter_names[i]);
        CHECK(host->count(counter) == 0);
      }
    }
  }
  CHECK(pair.a.count(Counter::sent_pkts) == count);
}

}  // namespace verbena::test
