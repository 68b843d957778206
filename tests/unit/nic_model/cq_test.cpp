// Completion queues: capacity, overflow, and when a notification fires (IBTA vol 1, 11.4.2).
#include <array>
#include <catch2/catch.hpp>

#include "tests/support/pair.h"

namespace verbena::test {

namespace {

/// A message to pair.b for which a receive is there; solicited or not.
void send_one(Pair& pair, const Connection& qps, std::uint64_t id, bool solicited) {
  pair.post_recv(Side::b, *qps.b, id, {});
  Work work = pair.a.send(id, {});
  work.pieces.clear();
  work.solicited = solicited;
  pair.post(Side::a, *qps.a, work);
  pair.run_until_idle();
}

}  // namespace

TEST_CASE("completions come out in the order in which they went in") {
  nic::Cq::Signals signals;
  Counters counters;
  nic::Cq cq(4, 0, counters, signals);
  std::array<Completion, 3> out;
  CHECK(cq.empty());
  for (std::uint64_t round = 0; round < 10; ++round) {
    for (std::uint64_t i = 0; i < 3; ++i) {
      cq.complete({.wr_id = round * 3 + i}, false);
    }
    CHECK_FALSE(cq.empty());
    REQUIRE(cq.poll({out.data(), 2}) == 2);
    CHECK(out[0].wr_id == round * 3);
    CHECK(out[1].wr_id == round * 3 + 1);
    REQUIRE(cq.poll(out) == 1);
    CHECK(out[0].wr_id == round * 3 + 2);
    CHECK(cq.poll(out) == 0);
  }
}

TEST_CASE("a purge takes one queue pair's completions and leaves the others' in order") {
  nic::Cq::Signals signals;
  Counters counters;
  nic::Cq cq(8, 0, counters, signals);
  std::array<Completion, 8> out;
  // Begins at an index that isn't 0, so that the ring wraps.
  for (std::uint64_t i = 0; i < 5; ++i) {
    cq.complete({}, false);
  }
  REQUIRE(cq.poll(out) == 5);
  for (std::uint64_t i = 0; i < 8; ++i) {
    cq.complete({.wr_id = i, .qpn = Qpn{i % 3 == 0 ? 7U : 8U}}, false);
  }
  cq.purge(Qpn{7});
  cq.purge(Qpn{9});
  REQUIRE(cq.poll(out) == 5);
  for (const auto& [at, id] : {std::pair{0, 1}, {1, 2}, {2, 4}, {3, 5}, {4, 7}}) {
    CHECK(out[static_cast<std::size_t>(at)].wr_id == static_cast<std::uint64_t>(id));
  }
  // There is room for as many as before.
  for (std::uint64_t i = 0; i < 8; ++i) {
    cq.complete({.qpn = Qpn{7}}, false);
  }
  CHECK_FALSE(cq.overflowed());
  cq.purge(Qpn{7});
  CHECK(cq.empty());
}

TEST_CASE("what a queue pair completed before its RESET, or its end, isn't found afterwards") {
  const bool reset = GENERATE(true, false);
  Pair pair;
  const Connection first = pair.connect();
  const Connection second = pair.connect();
  pair.post(Side::a, *first.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.post(Side::a, *second.a, pair.a.write(2, {0, 8}, pair.b, 0));
  pair.post(Side::a, *first.a, pair.a.write(3, {0, 8}, pair.b, 0));
  pair.run_until_idle();
  if (reset) {
    nic::QpAttr attr;
    attr.state = nic::QpState::reset;
    REQUIRE(pair.a.nic.modify_qp(pair.now(), *first.a, attr, nic::qp_attr_mask::state));
  } else {
    REQUIRE(pair.a.nic.destroy_qp(*first.a));
  }
  CHECK(pair.a.completions() == Lines{"2 write success"});
}

TEST_CASE("a completion queue holds at least what was asked for") {
  Host host(1);
  for (const std::uint32_t cqe : {1U, 2U, 3U, 100U, 4096U}) {
    CHECK(host.nic.create_cq(cqe, 0).value()->capacity() >= cqe);
  }
  // perftest -e asks for one, and leaves one there while the next arrives.
  CHECK(host.nic.create_cq(1, 0).value()->capacity() == 2);
  CHECK(host.nic.create_cq(0, 0).error() == nic::NicError::invalid_argument);
  CHECK(host.nic.create_cq(host.nic.profile().cqe_max + 1, 0).error() ==
        nic::NicError::invalid_argument);
}

TEST_CASE("an overflow is an event of the queue, ends its queue pairs and keeps what was there") {
  PairOptions options;
  options.a.cqe = 4;
  Pair pair(options);
  const Connection first = pair.connect();
  const Connection second = pair.connect();
  for (std::uint64_t id = 1; id <= 6; ++id) {
    pair.post(Side::a, *first.a, pair.a.write(id, {0, 8}, pair.b, 0));
  }
  pair.run_until_idle();
  CHECK(pair.a.events() == Lines{"CQ_ERR", "QP_FATAL", "QP_FATAL"});
  CHECK(nic::state_of(*first.a) == nic::QpState::err);
  CHECK(nic::state_of(*second.a) == nic::QpState::err);
  CHECK(pair.a.cq->overflowed());
  CHECK(pair.a.completions() ==
        Lines{"1 write success", "2 write success", "3 write success", "4 write success"});
  CHECK(pair.a.count(Counter::cq_overflow) >= 1);
  // Nothing comes any more.
  CHECK(pair.try_post(Side::a, *first.a, pair.a.write(9, {0, 8}, pair.b, 0)));
  CHECK(pair.a.completions().empty());
}

TEST_CASE("an overflow in the middle of a flush ends the other queue pairs of the queue too") {
  PairOptions options;
  options.a.cqe = 2;
  Pair pair(options);
  const Connection first = pair.connect();
  const Connection second = pair.connect();
  for (std::uint64_t id = 1; id <= 3; ++id) {
    pair.post_recv(Side::a, *first.a, id, {});
  }
  to_state(pair.a, pair.now(), *first.a, nic::QpState::err);
  CHECK(pair.a.events() == Lines{"CQ_ERR", "QP_FATAL"});
  CHECK(nic::state_of(*second.a) == nic::QpState::err);
}

TEST_CASE("an armed queue notifies once, at the next completion") {
  Pair pair;
  const Connection qps = pair.connect();
  CHECK(pair.b.nic.poll_cq_notification() == nullptr);
  pair.b.nic.req_notify_cq(*pair.b.cq, false);
  CHECK(pair.b.nic.poll_cq_notification() == nullptr);
  send_one(pair, qps, 1, false);
  CHECK(pair.b.nic.poll_cq_notification() == pair.b.cq);
  CHECK(pair.b.nic.poll_cq_notification() == nullptr);
  send_one(pair, qps, 2, false);
  CHECK(pair.b.nic.poll_cq_notification() == nullptr);
}

TEST_CASE("completions that are there already do not notify") {
  // IBTA vol 1, 11.4.2.2: that is why programs poll once more after they armed.
  Pair pair;
  const Connection qps = pair.connect();
  send_one(pair, qps, 1, true);
  pair.b.nic.req_notify_cq(*pair.b.cq, false);
  CHECK(pair.b.nic.poll_cq_notification() == nullptr);
  send_one(pair, qps, 2, false);
  CHECK(pair.b.nic.poll_cq_notification() == pair.b.cq);
}

TEST_CASE("armed for solicited completions a queue lets the others pass") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.b.nic.req_notify_cq(*pair.b.cq, true);
  send_one(pair, qps, 1, false);
  CHECK(pair.b.nic.poll_cq_notification() == nullptr);
  send_one(pair, qps, 2, true);
  CHECK(pair.b.nic.poll_cq_notification() == pair.b.cq);
}

TEST_CASE("a completion with an error notifies also who waits for solicited ones") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.b.nic.req_notify_cq(*pair.b.cq, true);
  pair.post_recv(Side::b, *qps.b, 1, {});
  to_state(pair.b, pair.now(), *qps.b, nic::QpState::err);
  CHECK(pair.b.nic.poll_cq_notification() == pair.b.cq);
}

TEST_CASE("armed for the next completion a queue stays so when solicited is asked for") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.b.nic.req_notify_cq(*pair.b.cq, false);
  pair.b.nic.req_notify_cq(*pair.b.cq, true);
  send_one(pair, qps, 1, false);
  CHECK(pair.b.nic.poll_cq_notification() == pair.b.cq);
}

TEST_CASE("send and receive completions go to the queues that the queue pair was given") {
  Pair pair;
  nic::Cq* const recv_cq = pair.b.nic.create_cq(16, 42).value();
  nic::Qp& a = create_qp(pair.a, {});
  const auto b = pair.b.nic.create_qp(
      *pair.b.pd,
      {.send_cq = pair.b.cq, .recv_cq = recv_cq, .caps = EndOptions{}.caps, .cookie = 7});
  REQUIRE(b);
  CHECK(nic::cookie_of(**b) == 7);
  CHECK(recv_cq->cookie() == 42);
  const EndOptions end;
  to_init(pair.a, pair.now(), a, end);
  to_init(pair.b, pair.now(), **b, end);
  to_rtr(pair.a, pair.now(), a, end, pair.b.gid(), nic::qpn_of(**b), end.sq_psn);
  to_rtr(pair.b, pair.now(), **b, end, pair.a.gid(), nic::qpn_of(a), end.sq_psn);
  to_rts(pair.a, pair.now(), a, end);
  to_rts(pair.b, pair.now(), **b, end);
  pair.post_recv(Side::b, **b, 1, {{0, 64}});
  pair.post(Side::a, a, pair.a.send(2, {0, 8}));
  pair.post(Side::b, **b, pair.b.write(3, {0, 8}, pair.a, 0));
  pair.run_until_idle();
  CHECK(pair.b.completions() == Lines{"3 write success"});
  std::array<Completion, 4> out;
  REQUIRE(recv_cq->poll(out) == 1);
  CHECK(to_text(out[0]) == "1 recv success +8");
}

TEST_CASE("a moderated notification waits for its count of completions, or for its period") {
  Pair pair;
  const Connection qps = pair.connect();
  nic::Cq& cq = *pair.b.cq;
  REQUIRE(pair.b.nic.moderate_cq(cq, 3, std::chrono::milliseconds(1)));
  pair.b.nic.req_notify_cq(cq, false);
  const auto receive_one = [&](std::uint64_t id) {
    pair.post_recv(Side::b, *qps.b, id, {{0, 64}});
    pair.post(Side::a, *qps.a, pair.a.send(id, {0, 8}));
    pair.advance(Duration(100'000));
    return pair.b.nic.poll_cq_notification() == &cq;
  };
  SECTION("the count") {
    CHECK_FALSE(receive_one(1));
    CHECK_FALSE(receive_one(2));
    CHECK(receive_one(3));
  }
  SECTION("the period, from the first completion on") {
    CHECK_FALSE(receive_one(1));
    pair.advance(Duration(850'000));
    CHECK(pair.b.nic.poll_cq_notification() == nullptr);
    pair.advance(Duration(100'000));
    CHECK(pair.b.nic.poll_cq_notification() == &cq);
  }
  SECTION("moderation that ends lets go what it held") {
    CHECK_FALSE(receive_one(1));
    REQUIRE(pair.b.nic.moderate_cq(cq, 0, Duration(0)));
    CHECK(pair.b.nic.poll_cq_notification() == &cq);
  }
  SECTION("a queue that goes is not told") {
    nic::Cq& other = **pair.b.nic.create_cq(8, 0);
    REQUIRE(pair.b.nic.moderate_cq(other, 3, Duration(1000)));
    pair.b.nic.req_notify_cq(other, false);
    other.complete({.wr_id = 1, .time = pair.now()}, false);
    REQUIRE(pair.b.nic.destroy_cq(other));
    CHECK(pair.b.nic.next_timeout() == time_never);
  }
  CHECK(pair.b.nic.moderate_cq(cq, 3, std::chrono::seconds(1)).error() ==
        nic::NicError::invalid_argument);
}

TEST_CASE("a queue that changes its size keeps what waits in it, in order") {
  Host host(1);
  nic::Cq& cq = *host.nic.create_cq(4, 0).value();
  for (std::uint64_t id = 1; id <= 3; ++id) {
    cq.complete({.wr_id = id}, false);
  }
  std::array<Completion, 1> first;
  REQUIRE(cq.poll(first) == 1);
  REQUIRE(host.nic.resize_cq(cq, 64));
  CHECK(cq.capacity() >= 64);
  for (std::uint64_t id = 4; id <= 60; ++id) {
    cq.complete({.wr_id = id}, false);
  }
  CHECK(host.nic.resize_cq(cq, 58).error() == nic::NicError::invalid_argument);
  CHECK(host.nic.resize_cq(cq, 0).error() == nic::NicError::invalid_argument);
  std::array<Completion, 64> rest;
  REQUIRE(cq.poll(rest) == 59);
  CHECK(rest[0].wr_id == 2);
  CHECK(rest[58].wr_id == 60);
  CHECK(host.nic.resize_cq(cq, 1));
  CHECK(cq.capacity() == 2);
}

}  // namespace verbena::test
