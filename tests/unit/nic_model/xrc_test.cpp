// XRC: initiators that send to any shared receive queue of the target's domain (IBTA vol 1, annex
// A14).
#include <algorithm>
#include <catch2/catch.hpp>

#include "nic_model/qp_state_table.h"
#include "tests/support/pair.h"

namespace verbena::test {

using nic::NicError;
using nic::QpState;
using nic::QpType;
using nic::Srq;

namespace {

namespace m = nic::qp_attr_mask;

/// An initiator at a, connected to a target at b, whose domain has two receive queues.
struct Xrc : Pair {
  Xrc() : domain(**b.nic.alloc_xrcd()), one(srq()), two(srq()) {
    initiator = *a.nic.create_qp(*a.pd, {.type = QpType::xrc_initiator,
                                         .send_cq = a.cq,
                                         .caps = {.send_wr_max = 16, .send_sge_max = 4}});
    target = *b.nic.create_qp(nic::pd_of(domain), {.type = QpType::xrc_target, .xrcd = &domain});
    bring_up(a, *initiator, b, *target);
    bring_up(b, *target, a, *initiator);
  }

  [[nodiscard]] Srq& srq() {
    return **b.nic.create_srq(*b.pd, {.wr_max = 8, .sge_max = 2, .xrcd = &domain, .cq = b.cq});
  }

  void bring_up(Host& host, nic::Qp& qp, Host& peer, nic::Qp& peer_qp) const {
    nic::QpAttr attr;
    attr.access_flags = all_access;
    attr.av = {.dgid = peer.gid(), .has_grh = true};
    attr.path_mtu = nic::Mtu::mtu_1024;
    attr.dest_qpn = nic::qpn_of(peer_qp);
    attr.rq_psn = attr.sq_psn = Psn(100);
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    for (const auto& [from, to] :
         {std::pair{QpState::reset, QpState::init}, std::pair{QpState::init, QpState::rtr},
          std::pair{QpState::rtr, QpState::rts}}) {
      attr.state = to;
      const std::uint32_t needed = nic::transition_rule(nic::type_of(qp), from, to)->required;
      REQUIRE(host.nic.modify_qp(now(), qp, attr, needed | m::state));
    }
  }

  void post_shared(Srq& queue, std::uint64_t id, Piece into) {
    const Sge sge = b.sge(into);
    REQUIRE(b.nic.post_srq_recv(queue, {.wr_id = id, .sges = {&sge, 1}}));
  }

  [[nodiscard]] Lines send(Work work, const Srq& to) {
    work.remote_srqn = nic::number_of(to);
    post(Side::a, *initiator, work);
    run_until_idle();
    return a.completions();
  }

  nic::Xrcd& domain;
  Srq& one;
  Srq& two;
  nic::Qp* initiator = nullptr;
  nic::Qp* target = nullptr;
};

}  // namespace

TEST_CASE("a message goes to the receive queue that its XRCETH names") {
  Xrc pair;
  pair.post_shared(pair.one, 1, {0, 4096});
  pair.post_shared(pair.two, 2, {4096, 4096});
  CHECK(pair.send(pair.a.send(10, {0, 3000}), pair.two) == Lines{"10 send success"});
  CHECK(pair.send(pair.a.send_imm(11, {0, 8}, 5), pair.one) == Lines{"11 send success"});
  CHECK(pair.log()[0].fields.opcode == ib::Opcode::xrc_send_first);
  CHECK(pair.log()[0].fields.xrceth.srq_number() == to_value(nic::number_of(pair.two)));
  const auto received = pair.b.poll();
  REQUIRE(received.size() == 2);
  CHECK(received[0].wr_id == 2);
  CHECK(received[0].byte_len == 3000);
  CHECK(received[0].qpn == nic::qpn_of(*pair.target));
  CHECK(received[1].wr_id == 1);
  CHECK(received[1].with_imm);
  CHECK(std::ranges::equal(pair.b.bytes(4096, 3000), pair.a.bytes(0, 3000)));
}

TEST_CASE("WRITEs, READs and atomics look their keys up in the queue's protection domain") {
  Xrc pair;
  CHECK(pair.send(pair.a.write(1, {0, 2000}, pair.b, 100), pair.one) == Lines{"1 write success"});
  CHECK(std::ranges::equal(pair.b.bytes(100, 2000), pair.a.bytes(0, 2000)));
  CHECK(pair.send(pair.a.read(2, {8192, 2000}, pair.b, 100), pair.one) == Lines{"2 read success"});
  CHECK(std::ranges::equal(pair.a.bytes(8192, 2000), pair.a.bytes(0, 2000)));
  store_u64(pair.b.bytes(), 64, 40);
  CHECK(pair.send(pair.a.fetch_add(3, 512, pair.b, 64, 2), pair.two) ==
        Lines{"3 fetch_add success"});
  CHECK(load_u64(pair.b.bytes(), 64) == 42);

  nic::Pd* const other = *pair.b.nic.alloc_pd();
  Srq& foreign = **pair.b.nic.create_srq(
      *other, {.wr_max = 1, .sge_max = 1, .xrcd = &pair.domain, .cq = pair.b.cq});
  CHECK(pair.send(pair.a.write(4, {0, 8}, pair.b, 0), foreign) == Lines{"4 write rem_access_err"});
}

TEST_CASE("a number that is no queue of the domain is an invalid request") {
  Xrc pair;
  Work work = pair.a.send(1, {0, 8});
  work.remote_srqn = Srqn{0x123456};
  pair.post(Side::a, *pair.initiator, work);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 send rem_inv_req_err"});
  CHECK(pair.b.events() == Lines{"QP_REQ_ERR"});
}

TEST_CASE("XRC survives losses as RC does") {
  Xrc pair;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    pair.post_shared(id % 2 == 0 ? pair.one : pair.two, id, {id * 4096, 4096});
  }
  pair.drop(Side::a, nth(1));
  pair.drop(Side::a, nth(4));
  pair.drop(Side::b, nth(0));
  for (std::uint64_t id = 1; id <= 4; ++id) {
    Work work = pair.a.send(id, {0, 2500});
    work.remote_srqn = nic::number_of(id % 2 == 0 ? pair.one : pair.two);
    pair.post(Side::a, *pair.initiator, work);
  }
  pair.run_until_idle();
  CHECK(pair.a.completions().size() == 4);
  CHECK(pair.b.completions() == Lines{"1 recv success +2500", "2 recv success +2500",
                                      "3 recv success +2500", "4 recv success +2500"});
}

TEST_CASE("an empty queue holds the initiator back, also from the other queues") {
  Xrc pair;
  pair.post_shared(pair.two, 2, {0, 64});
  Work to_one = pair.a.send(10, {0, 8});
  to_one.remote_srqn = nic::number_of(pair.one);
  Work to_two = pair.a.send(11, {0, 8});
  to_two.remote_srqn = nic::number_of(pair.two);
  pair.post(Side::a, *pair.initiator, to_one);
  pair.post(Side::a, *pair.initiator, to_two);
  pair.settle();
  CHECK(pair.b.poll().empty());
  pair.post_shared(pair.one, 1, {64, 64});
  pair.run_until_idle();
  CHECK(pair.b.completions() == Lines{"1 recv success +8", "2 recv success +8"});
}

TEST_CASE("a queue may go while a message for it is under way: the rest is refused") {
  Xrc pair;
  pair.post_shared(pair.one, 1, {0, 4096});
  Work work = pair.a.send(10, {0, 3000});
  work.remote_srqn = nic::number_of(pair.one);
  pair.post(Side::a, *pair.initiator, work);
  pair.set_room(Side::a, 1);
  pair.settle();
  REQUIRE(pair.b.nic.destroy_srq(pair.one));
  pair.set_room(Side::a, Pair::always);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"10 send rem_inv_req_err"});
  CHECK(pair.b.poll().empty());
}

TEST_CASE("each half of XRC does its part only") {
  Xrc pair;
  CHECK(pair.b.nic.post_send(pair.now(), *pair.target, pair.b.send(1, {0, 8})).error() ==
        PostError::opcode_unsupported);
  CHECK(pair.b.nic.post_recv(pair.now(), *pair.target, {.wr_id = 1, .sges = {}}).error() ==
        PostError::shared_queue);
  CHECK(pair.a.nic.post_recv(pair.now(), *pair.initiator, {.wr_id = 1, .sges = {}}).error() ==
        PostError::shared_queue);
  CHECK(pair.a.nic
            .create_qp(*pair.a.pd, {.type = QpType::rc,
                                    .send_cq = pair.a.cq,
                                    .recv_cq = pair.a.cq,
                                    .xrcd = &pair.domain})
            .error() == NicError::invalid_argument);
  CHECK(pair.b.nic.create_qp(*pair.b.pd, {.type = QpType::xrc_target}).error() ==
        NicError::invalid_argument);
}

TEST_CASE("a domain stays as long as it has targets or queues") {
  Xrc pair;
  REQUIRE(pair.b.nic.destroy_qp(*pair.target));
  CHECK(pair.b.nic.dealloc_xrcd(pair.domain).error() == NicError::busy);
  CHECK(pair.b.nic.destroy_cq(*pair.b.cq).error() == NicError::busy);
  REQUIRE(pair.b.nic.destroy_srq(pair.one));
  REQUIRE(pair.b.nic.destroy_srq(pair.two));
  const auto before = pair.b.nic.object_counts();
  REQUIRE(pair.b.nic.dealloc_xrcd(pair.domain));
  CHECK(pair.b.nic.object_counts().pds + 1 == before.pds);
}

}  // namespace verbena::test
