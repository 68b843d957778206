// SQD: what was begun is finished, nothing new begins (IBTA vol 1, 10.3.1.5).
#include <catch2/catch.hpp>

#include "tests/support/pair.h"
#include "tests/support/scripted_peer.h"

namespace verbena::test {

using ib::Opcode;
using nic::QpState;
namespace m = nic::qp_attr_mask;

namespace {

void drain(Host& host, Time now, nic::Qp& qp, bool notify) {
  nic::QpAttr attr;
  attr.state = QpState::sqd;
  attr.en_sqd_async_notify = notify;
  REQUIRE(host.nic.modify_qp(now, qp, attr, m::state | m::en_sqd_async_notify));
}

}  // namespace

TEST_CASE("a queue that is drained says so at once, if asked") {
  ScriptedPeer peer;
  drain(peer.host, peer.now(), peer.qp, true);
  CHECK(peer.host.events() == std::vector<std::string>{"SQ_DRAINED"});
}

TEST_CASE("a queue that is not asked drains in silence") {
  ScriptedPeer peer;
  drain(peer.host, peer.now(), peer.qp, false);
  CHECK(peer.host.events().empty());
}

TEST_CASE("draining waits for what is in flight, and holds back what isn't") {
  ScriptedPeer peer;
  peer.post(peer.host.send(1, {0, 8}));
  peer.answers();
  drain(peer.host, peer.now(), peer.qp, true);
  peer.post(peer.host.send(2, {0, 9}));
  CHECK(peer.answers().empty());
  CHECK(peer.host.events().empty());
  peer.send(peer.response(Opcode::rc_acknowledge, Psn(100)));
  CHECK(peer.host.events() == std::vector<std::string>{"SQ_DRAINED"});
  CHECK(peer.host.completions() == std::vector<std::string>{"1 send success"});
  CHECK(peer.answers().empty());
  to_state(peer.host, peer.now(), peer.qp, QpState::rts);
  peer.advance(Duration(0));
  CHECK(peer.answers() == std::vector<std::string>{"send_only 101 +9 A"});
}

TEST_CASE("a message of which a part was sent is finished while draining") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.set_room(Side::a, 2);
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 5000}, pair.b, 0));
  pair.post(Side::a, *qps.a, pair.a.write(2, {0, 8}, pair.b, 0));
  pair.settle();
  CHECK(pair.wire(Side::a).size() == 2);
  drain(pair.a, pair.now(), *qps.a, true);
  pair.set_room(Side::a, Pair::always);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write success"});
  CHECK(pair.a.events() == Lines{"SQ_DRAINED"});
  CHECK(pair.wire(Side::a).size() == 5);
  to_state(pair.a, pair.now(), *qps.a, QpState::rts);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"2 write success"});
}

TEST_CASE("a loss while draining is repaired") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.drop(Side::a, nth(0));
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.settle();
  drain(pair.a, pair.now(), *qps.a, true);
  CHECK(pair.a.events().empty());
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write success"});
  CHECK(pair.a.events() == Lines{"SQ_DRAINED"});
}

TEST_CASE("the responder works on while the send queue is drained") {
  Pair pair;
  const Connection qps = pair.connect();
  drain(pair.a, pair.now(), *qps.a, false);
  pair.post(Side::b, *qps.b, pair.b.read(1, {0, 8}, pair.a, 0));
  pair.run_until_idle();
  CHECK(pair.b.completions() == Lines{"1 read success"});
}

TEST_CASE("timeout and retries set while drained count from then on") {
  Pair pair;
  const Connection qps = pair.connect({.timeout = 14, .retry_cnt = 7});
  drain(pair.a, pair.now(), *qps.a, false);
  nic::QpAttr attr;
  attr.timeout = 1;
  attr.retry_cnt = 2;
  REQUIRE(pair.a.nic.modify_qp(pair.now(), *qps.a, attr, m::timeout | m::retry_cnt));
  to_state(pair.a, pair.now(), *qps.a, QpState::rts);
  pair.drop(Side::a, any_packet(), Pair::always);
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.run_until_idle();
  CHECK(pair.wire(Side::a).size() == 3);
  CHECK(pair.now() == Time{} + 3 * Duration(8192));
}

TEST_CASE(
    "max_dest_rd_atomic set while drained counts from then on, and keeps the newest results") {
  ScriptedPeer peer({.max_dest_rd_atomic = 2});
  store_u64(peer.host.bytes(), 0, 0);
  for (std::int32_t n = 0; n < 3; ++n) {
    peer.send(peer.request(Opcode::rc_fetch_add, n));
  }
  drain(peer.host, peer.now(), peer.qp, false);
  nic::QpAttr attr;
  attr.max_dest_rd_atomic = 4;
  REQUIRE(peer.host.nic.modify_qp(peer.now(), peer.qp, attr, m::max_dest_rd_atomic));
  peer.send(peer.request(Opcode::rc_fetch_add, 3));
  peer.answers();
  // 0 was dropped before the change; 1 to 3 are kept.
  CHECK(peer.send(peer.request(Opcode::rc_fetch_add, 0)).counter == Counter::rx_drop_duplicate);
  for (std::int32_t n = 1; n <= 3; ++n) {
    peer.send(peer.request(Opcode::rc_fetch_add, n));
  }
  CHECK(peer.answers() == std::vector<std::string>{"atomic_acknowledge 501 ack msn 2",
                                                   "atomic_acknowledge 502 ack msn 3",
                                                   "atomic_acknowledge 503 ack msn 4"});
  attr.max_dest_rd_atomic = 1;
  REQUIRE(peer.host.nic.modify_qp(peer.now(), peer.qp, attr, m::max_dest_rd_atomic));
  CHECK(peer.send(peer.request(Opcode::rc_fetch_add, 2)).counter == Counter::rx_drop_duplicate);
  CHECK(peer.send(peer.request(Opcode::rc_fetch_add, 3)).kind == RxVerdict::Kind::duplicate);
  CHECK(load_u64(peer.host.bytes()) == 4);
}

}  // namespace verbena::test
