// Failures on demand are failures: what a consumer sees is what it would see of a real one.
#include <catch2/catch.hpp>

#include "tests/support/pair.h"

namespace verbena::test {

using nic::AsyncEventType;

TEST_CASE("a port that goes down loses what comes and goes, and works again when it is back") {
  Pair pair;
  const Connection qps = pair.connect();
  CHECK(pair.b.nic.inject(pair.now(), AsyncEventType::port_err, std::nullopt) == 1);
  CHECK_FALSE(pair.b.nic.is_port_active());
  CHECK(pair.b.events() == Lines{"PORT_ERR"});
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.settle();
  CHECK(pair.b.count(Counter::rx_drop_port_down) == 1);
  CHECK(pair.b.nic.inject(pair.now(), AsyncEventType::port_active, std::nullopt) == 1);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write success"});
  CHECK(pair.b.events() == Lines{"PORT_ACTIVE"});
}

TEST_CASE("a dead port is a dead host: requests run out of retries") {
  Pair pair;
  const Connection qps = pair.connect({.retry_cnt = 2});
  static_cast<void>(pair.a.nic.inject(pair.now(), AsyncEventType::port_err, std::nullopt));
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write retry_exc_err"});
  CHECK(pair.wire().empty());
}

TEST_CASE("a queue pair that is made to fail is in the error state and flushes") {
  Pair pair;
  const Connection one = pair.connect();
  const Connection two = pair.connect();
  pair.post_recv(Side::b, *one.b, 7, {{0, 64}});
  CHECK(pair.b.nic.inject(pair.now(), AsyncEventType::qp_access_err, nic::qpn_of(*one.b)) == 1);
  CHECK(nic::state_of(*one.b) == nic::QpState::err);
  CHECK(nic::state_of(*two.b) == nic::QpState::rts);
  CHECK(pair.b.completions() == Lines{"7 recv wr_flush_err"});
  CHECK(pair.b.events() == Lines{"QP_ACCESS_ERR"});
  CHECK(pair.b.nic.inject(pair.now(), AsyncEventType::qp_fatal, Qpn{0x999}) == 0);
}

TEST_CASE("events that change nothing are told to every queue pair") {
  Pair pair;
  const Connection one = pair.connect();
  const Connection two = pair.connect();
  CHECK(pair.a.nic.inject(pair.now(), AsyncEventType::comm_est, std::nullopt) == 2);
  CHECK(pair.a.events() == Lines{"COMM_EST", "COMM_EST"});
  // As when a peer really goes where we can't follow.
  CHECK(pair.a.nic.inject(pair.now(), AsyncEventType::path_mig_err, nic::qpn_of(*two.a)) == 1);
  CHECK(pair.a.events() == Lines{"PATH_MIG_ERR"});
  CHECK(nic::state_of(*one.a) == nic::QpState::rts);
  CHECK(nic::state_of(*two.a) == nic::QpState::rts);
}

TEST_CASE("a fatal error of the device ends all of its queue pairs") {
  Pair pair;
  const Connection qps = pair.connect();
  CHECK(pair.a.nic.inject(pair.now(), AsyncEventType::device_fatal, std::nullopt) == 1);
  CHECK(nic::state_of(*qps.a) == nic::QpState::err);
  CHECK(pair.a.events() == Lines{"DEVICE_FATAL"});
}

TEST_CASE("a completion queue that is made to overflow takes its queue pairs along") {
  Pair pair;
  const Connection qps = pair.connect();
  CHECK(pair.a.nic.inject(pair.now(), AsyncEventType::cq_err, std::nullopt) == 1);
  CHECK(nic::state_of(*qps.a) == nic::QpState::err);
  CHECK(pair.a.events() == Lines{"CQ_ERR", "QP_FATAL"});
}

}  // namespace verbena::test
