// Shared receive queues: who takes what from them, when they tell, and what becomes of a request
// whose queue pair fails (IBTA vol 1, 10.2.9, 11.6.3).
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/pair.h"

namespace verbena::test {

using nic::NicError;
using nic::Srq;

namespace {

/// Two hosts and two connections, whose ends at b share a receive queue.
struct Shared : Pair {
  explicit Shared(const nic::SrqInitAttr& attr = {.wr_max = 8, .sge_max = 2})
      : srq(**b.nic.create_srq(*b.pd, attr)) {
    for (Connection* qps : {&first, &second}) {
      *qps = connect({}, {.srq = &srq});
    }
  }

  void post_shared(std::uint64_t id, Piece into) {
    const Sge sge = b.sge(into);
    REQUIRE(b.nic.post_srq_recv(srq, {.wr_id = id, .sges = {&sge, 1}}));
  }

  Srq& srq;
  Connection first;
  Connection second;
};

}  // namespace

TEST_CASE("messages of all its queue pairs take the requests of a shared queue in order") {
  Shared pair;
  pair.post_shared(1, {0, 64});
  pair.post_shared(2, {64, 64});
  pair.post_shared(3, {128, 64});
  pair.post(Side::a, *pair.second.a, pair.a.send(10, {0, 8}));
  pair.settle();
  pair.post(Side::a, *pair.first.a, pair.a.send(11, {8, 8}));
  pair.post(Side::a, *pair.first.a, pair.a.write_imm(12, {0, 8}, pair.b, 512, 5));
  pair.run_until_idle();
  const auto received = pair.b.poll();
  REQUIRE(received.size() == 3);
  CHECK(received[0].wr_id == 1);
  CHECK(received[0].qpn == nic::qpn_of(*pair.second.b));
  CHECK(received[1].wr_id == 2);
  CHECK(received[1].qpn == nic::qpn_of(*pair.first.b));
  CHECK(received[2].wr_id == 3);
  CHECK(std::ranges::equal(pair.b.bytes(0, 8), pair.a.bytes(0, 8)));
  CHECK(std::ranges::equal(pair.b.bytes(64, 8), pair.a.bytes(8, 8)));
}

TEST_CASE("a long message keeps the request that it began with while others go on") {
  Shared pair;
  pair.post_shared(1, {0, 4096});
  pair.post_shared(2, {8192, 64});
  pair.post(Side::a, *pair.first.a, pair.a.send(10, {0, 3000}));
  pair.set_room(Side::a, 1);
  pair.settle();
  pair.set_room(Side::a, 1);
  // The first connection has its turn first: its second packet, then the short message.
  pair.settle();
  pair.set_room(Side::a, 0);
  pair.post(Side::a, *pair.second.a, pair.a.send(11, {4096, 8}));
  pair.set_room(Side::a, Pair::always);
  pair.run_until_idle();
  auto ids = std::vector<std::uint64_t>{};
  for (const Completion& completion : pair.b.poll()) {
    ids.push_back(completion.wr_id);
  }
  std::ranges::sort(ids);
  CHECK(ids == std::vector<std::uint64_t>{1, 2});
  CHECK(std::ranges::equal(pair.b.bytes(0, 3000), pair.a.bytes(0, 3000)));
  CHECK(std::ranges::equal(pair.b.bytes(8192, 8), pair.a.bytes(4096, 8)));
}

TEST_CASE("an empty shared queue is answered by RNR NAKs until a request is posted") {
  Shared pair;
  pair.post(Side::a, *pair.first.a, pair.a.send(10, {0, 8}));
  pair.settle();
  CHECK(pair.wire(Side::b).back().starts_with("acknowledge 100 rnr"));
  pair.post_shared(1, {0, 64});
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"10 send success"});
  CHECK(pair.b.completions() == Lines{"1 recv success +8"});
}

TEST_CASE("the limit tells once when fewer requests are left, then it must be armed again") {
  Shared pair({.wr_max = 8, .sge_max = 1, .limit = 2});
  const auto send = [&](std::uint64_t id) {
    pair.post(Side::a, *pair.first.a, pair.a.send(id, {0, 8}));
    pair.run_until_idle();
  };
  for (std::uint64_t id = 1; id <= 4; ++id) {
    pair.post_shared(id, {0, 64});
  }
  send(10);
  send(11);
  CHECK(pair.b.events().empty());
  send(12);
  CHECK(pair.b.events() == Lines{"SRQ_LIMIT_REACHED"});
  CHECK(pair.b.nic.query_srq(pair.srq).limit == 0);
  send(13);
  CHECK(pair.b.events().empty());
  REQUIRE(pair.b.nic.modify_srq(pair.srq, std::nullopt, 1));
  pair.post_shared(5, {0, 64});
  send(14);
  CHECK(pair.b.events() == Lines{"SRQ_LIMIT_REACHED"});
}

TEST_CASE("a queue pair that fails flushes only the request that it holds, and tells the last") {
  Shared pair;
  pair.post_shared(1, {0, 4096});
  pair.post_shared(2, {4096, 64});
  pair.post(Side::a, *pair.first.a, pair.a.send(10, {0, 3000}));
  pair.set_room(Side::a, 1);
  pair.settle();
  static_cast<void>(pair.b.events());
  to_state(pair.b, pair.now(), *pair.first.b, nic::QpState::err);
  CHECK(pair.b.completions() == Lines{"1 recv wr_flush_err"});
  CHECK(pair.b.events() == Lines{"QP_LAST_WQE_REACHED"});
  pair.set_room(Side::a, Pair::always);
  // The other connection still takes from the queue.
  pair.post(Side::a, *pair.second.a, pair.a.send(11, {0, 8}));
  pair.settle();
  CHECK(pair.b.completions() == Lines{"2 recv success +8"});
}

TEST_CASE("a message that is too long for the request fails its queue pair alone") {
  Shared pair;
  pair.post_shared(1, {0, 4});
  pair.post_shared(2, {0, 64});
  pair.post(Side::a, *pair.first.a, pair.a.send(10, {0, 8}));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"10 send rem_inv_req_err"});
  CHECK(pair.b.completions() == Lines{"1 recv loc_len_err"});
  pair.post(Side::a, *pair.second.a, pair.a.send(11, {0, 8}));
  pair.run_until_idle();
  CHECK(pair.b.completions() == Lines{"2 recv success +8"});
}

TEST_CASE("requests are not posted to a queue pair with a shared queue") {
  Shared pair;
  CHECK(pair.b.nic.post_recv(pair.now(), *pair.first.b, {.wr_id = 1, .sges = {}}).error() ==
        PostError::shared_queue);
}

TEST_CASE("a shared queue takes as many requests as it has room for, and can be resized") {
  Shared pair({.wr_max = 2, .sge_max = 1});
  pair.post_shared(1, {0, 8});
  pair.post_shared(2, {8, 8});
  CHECK(pair.b.nic.post_srq_recv(pair.srq, {.wr_id = 3, .sges = {}}).error() ==
        PostError::queue_full);
  REQUIRE(pair.b.nic.modify_srq(pair.srq, 4, std::nullopt));
  pair.post_shared(3, {16, 8});
  CHECK(pair.b.nic.modify_srq(pair.srq, 2, std::nullopt).error() == NicError::invalid_argument);
  for (std::uint64_t id = 10; id < 13; ++id) {
    pair.post(Side::a, *pair.first.a, pair.a.send(id, {0, 8}));
  }
  pair.run_until_idle();
  CHECK(pair.b.completions() ==
        Lines{"1 recv success +8", "2 recv success +8", "3 recv success +8"});
}

TEST_CASE("shared queues: limits, and who keeps whom") {
  Shared pair;
  const auto refused = [&](const nic::SrqInitAttr& attr) {
    const auto srq = pair.b.nic.create_srq(*pair.b.pd, attr);
    return !srq && srq.error() == NicError::invalid_argument;
  };
  const nic::DeviceProfile& limits = pair.b.nic.profile();
  CHECK(refused({.wr_max = 0}));
  CHECK(refused({.wr_max = limits.srq_wr_max + 1}));
  CHECK(refused({.wr_max = 1, .sge_max = limits.sge_max + 1}));
  CHECK(refused({.wr_max = 4, .limit = 5}));
  CHECK(pair.b.nic.modify_srq(pair.srq, std::nullopt, 9).error() == NicError::invalid_argument);
  CHECK(pair.b.nic.destroy_srq(pair.srq).error() == NicError::busy);
  REQUIRE(pair.b.nic.destroy_qp(*pair.first.b));
  REQUIRE(pair.b.nic.destroy_qp(*pair.second.b));
  CHECK(pair.b.nic.destroy_srq(pair.srq));
  CHECK(pair.b.nic.object_counts().srqs == 0);
}

}  // namespace verbena::test
