// The extended interfaces: posting with ibv_wr_*, polling with ibv_start_poll().

#include <arpa/inet.h>

#include <array>
#include <cstddef>

#include "tests/unit/verbs/fixture.h"

using namespace verbena::test;

namespace {

/// A pair whose first side posts the extended way.
struct ExtendedPair {
  ExtendedPair() {
    ibv_qp_init_attr_ex init{};
    const ibv_qp_init_attr plain = a.init_attr();
    init.send_cq = plain.send_cq;
    init.recv_cq = plain.recv_cq;
    init.cap = plain.cap;
    init.qp_type = plain.qp_type;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = a.pd.get();
    init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
    a.qp.reset(ibv_create_qp_ex(a.context.get(), &init));
    REQUIRE(a.qp != nullptr);
    max_send_wr = init.cap.max_send_wr;
    qpx = ibv_qp_to_qp_ex(a.qp.get());
    REQUIRE(qpx != nullptr);
    a.connect_to(b);
    b.connect_to(a);
  }

  void write(std::uint64_t wr_id) {
    qpx->wr_id = wr_id;
    qpx->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(qpx, b.mr->rkey, reinterpret_cast<std::uintptr_t>(b.buffer.data()));
    ibv_wr_set_sge(qpx, a.mr->lkey, reinterpret_cast<std::uintptr_t>(a.buffer.data()), 8);
  }

  Side a;
  Side b;
  std::uint32_t max_send_wr = 0;
  ibv_qp_ex* qpx = nullptr;
};

}  // namespace

TEST_CASE("only queue pairs that asked for it post the extended way") {
  const Side side;
  CHECK(ibv_qp_to_qp_ex(side.qp.get()) == nullptr);
}

TEST_CASE("operations that the device doesn't have are refused at creation") {
  const Side side;
  ibv_qp_init_attr_ex init{};
  init.send_cq = side.cq.get();
  init.recv_cq = side.cq.get();
  init.qp_type = IBV_QPT_RC;
  init.pd = side.pd.get();
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.send_ops_flags = IBV_QP_EX_WITH_TSO;
  CHECK(ibv_create_qp_ex(side.context.get(), &init) == nullptr);
  CHECK(errno == EOPNOTSUPP);
}

TEST_CASE("a batch posts all its requests in order, with several SGEs and inline data") {
  ExtendedPair pair;
  pair.b.receive(1, {pair.b.sge(0, 64)});
  pair.b.receive(2, {pair.b.sge(64, 64)});
  std::memcpy(pair.a.buffer.data(), "onetwo", 6);

  ibv_wr_start(pair.qpx);
  pair.qpx->wr_id = 10;
  pair.qpx->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(pair.qpx);
  const std::array<ibv_sge, 2> sges = {pair.a.sge(3, 3), pair.a.sge(0, 3)};
  ibv_wr_set_sge_list(pair.qpx, sges.size(), sges.data());
  pair.qpx->wr_id = 11;
  ibv_wr_send_imm(pair.qpx, htonl(7));
  std::array<char, 6> inline_data = {'i', 'n', 'l', 'i', 'n', 'e'};
  const std::array<ibv_data_buf, 2> parts = {ibv_data_buf{inline_data.data(), 2},
                                             ibv_data_buf{inline_data.data() + 2, 4}};
  ibv_wr_set_inline_data_list(pair.qpx, parts.size(), parts.data());
  inline_data.fill('x');
  REQUIRE(ibv_wr_complete(pair.qpx) == 0);

  CHECK(pair.a.wait_for_completion().wr_id == 10);
  CHECK(pair.a.wait_for_completion().wr_id == 11);
  CHECK(pair.b.wait_for_completion().byte_len == 6);
  const ibv_wc second = pair.b.wait_for_completion();
  CHECK(second.byte_len == 6);
  CHECK(second.imm_data == htonl(7));
  CHECK(std::memcmp(pair.b.buffer.data(), "twoone", 6) == 0);
  CHECK(std::memcmp(pair.b.buffer.data() + 64, "inline", 6) == 0);
}

TEST_CASE("a batch that doesn't fit posts nothing") {
  ExtendedPair pair;
  ibv_wr_start(pair.qpx);
  for (std::uint32_t i = 0; i <= pair.max_send_wr; ++i) {
    pair.write(i);
  }
  CHECK(ibv_wr_complete(pair.qpx) == ENOMEM);
  // The queue is as it was: a request posted now is the first to complete.
  ibv_wr_start(pair.qpx);
  pair.write(1000);
  REQUIRE(ibv_wr_complete(pair.qpx) == 0);
  CHECK(pair.a.wait_for_completion().wr_id == 1000);
}

TEST_CASE("an aborted batch leaves nothing behind") {
  ExtendedPair pair;
  ibv_wr_start(pair.qpx);
  pair.write(1);
  ibv_wr_abort(pair.qpx);
  ibv_wr_start(pair.qpx);
  pair.write(2);
  REQUIRE(ibv_wr_complete(pair.qpx) == 0);
  CHECK(pair.a.wait_for_completion().wr_id == 2);
}

TEST_CASE("a setter without an operation fails the batch") {
  ExtendedPair pair;
  ibv_wr_start(pair.qpx);
  ibv_wr_set_sge(pair.qpx, 0, 0, 0);
  CHECK(ibv_wr_complete(pair.qpx) == EINVAL);
}

TEST_CASE("an extended CQ tells one completion at a time") {
  Side side;
  Side peer;
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  attr.wc_flags =
      std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  ibv_cq_ex* cq = ibv_create_cq_ex(peer.context.get(), &attr);
  REQUIRE(cq != nullptr);
  ibv_poll_cq_attr poll{};
  CHECK(ibv_start_poll(cq, &poll) == ENOENT);

  ibv_qp_init_attr init = peer.init_attr();
  init.recv_cq = ibv_cq_ex_to_cq(cq);
  peer.qp.reset(ibv_create_qp(peer.pd.get(), &init));
  side.connect_to(peer);
  peer.connect_to(side);
  peer.receive(1, {peer.sge(0, 16)});
  peer.receive(2, {peer.sge(16, 16)});
  for (const std::uint32_t imm : {5U, 6U}) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.imm_data = htonl(imm);
    side.send(wr, {side.sge(0, 16)});
    CHECK(side.wait_for_completion().status == IBV_WC_SUCCESS);
  }

  wait_until([&] { return ibv_start_poll(cq, &poll) == 0; });
  CHECK(cq->wr_id == 1);
  CHECK(cq->status == IBV_WC_SUCCESS);
  CHECK(ibv_wc_read_opcode(cq) == IBV_WC_RECV);
  CHECK(ibv_wc_read_byte_len(cq) == 16);
  CHECK(ibv_wc_read_imm_data(cq) == htonl(5));
  CHECK(ibv_wc_read_wc_flags(cq) == IBV_WC_WITH_IMM);
  CHECK(ibv_wc_read_qp_num(cq) == peer.qp->qp_num);
  const std::uint64_t first = ibv_wc_read_completion_wallclock_ns(cq);
  REQUIRE(ibv_next_poll(cq) == 0);
  CHECK(cq->wr_id == 2);
  CHECK(ibv_wc_read_imm_data(cq) == htonl(6));
  // Nanoseconds since 1970, after 2020 at any rate.
  CHECK(first > 1'577'836'800ULL * 1'000'000'000);
  CHECK(ibv_next_poll(cq) == ENOENT);
  ibv_end_poll(cq);
  peer.qp.reset();
  CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
}

TEST_CASE("extended CQs refuse what the device doesn't have") {
  const ContextPtr context = open_context();
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  SECTION("fields of offloads") { attr.wc_flags = IBV_WC_EX_WITH_CVLAN; }
  SECTION("overrun that is not an error") {
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  }
  CHECK(ibv_create_cq_ex(context.get(), &attr) == nullptr);
  CHECK(errno == EOPNOTSUPP);
}
