// Work through the ABI between two contexts of one process: posts, completions, their errors.

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

#include "tests/unit/verbs/fixture.h"

using namespace verbena::test;

namespace {

ibv_send_wr send_wr(std::uint64_t wr_id, ibv_wr_opcode opcode) {
  ibv_send_wr wr{};
  wr.wr_id = wr_id;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  return wr;
}

ibv_send_wr rdma_wr(std::uint64_t wr_id, ibv_wr_opcode opcode, const Side& peer,
                    std::size_t offset) {
  ibv_send_wr wr = send_wr(wr_id, opcode);
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(peer.buffer.data() + offset);
  wr.wr.rdma.rkey = peer.mr->rkey;
  return wr;
}

void fill(Side& side, std::size_t offset, std::size_t length, unsigned char value) {
  std::memset(side.buffer.data() + offset, value, length);
}

bool holds(const Side& side, std::size_t offset, std::size_t length, unsigned char value) {
  const auto* first = side.buffer.data() + offset;
  return std::all_of(first, first + length, [&](std::byte b) { return b == std::byte{value}; });
}

}  // namespace

TEST_CASE("a SEND with immediate fills the receiver's buffer and both completions") {
  Pair pair;
  fill(pair.a, 0, 3000, 0x5A);
  pair.b.receive(11, {pair.b.sge(0, 1000), pair.b.sge(4000, 3000)});
  ibv_send_wr wr = send_wr(22, IBV_WR_SEND_WITH_IMM);
  wr.imm_data = htonl(0x12345678);
  pair.a.send(wr, {pair.a.sge(0, 3000)});

  const ibv_wc sent = pair.a.wait_for_completion();
  CHECK(sent.status == IBV_WC_SUCCESS);
  CHECK(sent.opcode == IBV_WC_SEND);
  CHECK(sent.wr_id == 22);
  CHECK(sent.qp_num == pair.a.qp->qp_num);

  const ibv_wc received = pair.b.wait_for_completion();
  CHECK(received.status == IBV_WC_SUCCESS);
  CHECK(received.opcode == IBV_WC_RECV);
  CHECK(received.wr_id == 11);
  CHECK(received.byte_len == 3000);
  CHECK(received.wc_flags == IBV_WC_WITH_IMM);
  CHECK(received.imm_data == htonl(0x12345678));
  CHECK(received.qp_num == pair.b.qp->qp_num);
  CHECK(holds(pair.b, 0, 1000, 0x5A));
  CHECK(holds(pair.b, 4000, 2000, 0x5A));
  CHECK(holds(pair.b, 6000, 1000, 0));
}

TEST_CASE("RDMA WRITE and READ move data without the peer's doing") {
  Pair pair;
  fill(pair.a, 0, 2000, 0x11);
  pair.a.send(rdma_wr(1, IBV_WR_RDMA_WRITE, pair.b, 100), {pair.a.sge(0, 2000)});
  CHECK(pair.a.wait_for_completion().opcode == IBV_WC_RDMA_WRITE);
  CHECK(holds(pair.b, 100, 2000, 0x11));
  CHECK(holds(pair.b, 2100, 100, 0));

  fill(pair.b, 5000, 1500, 0x22);
  pair.a.send(rdma_wr(2, IBV_WR_RDMA_READ, pair.b, 5000), {pair.a.sge(4000, 1500)});
  const ibv_wc read = pair.a.wait_for_completion();
  CHECK(read.opcode == IBV_WC_RDMA_READ);
  CHECK(read.status == IBV_WC_SUCCESS);
  CHECK(holds(pair.a, 4000, 1500, 0x22));
}

TEST_CASE("inline data is copied during the post and needs no registration") {
  Pair pair;
  pair.b.receive(1, {pair.b.sge(0, 64)});
  std::array<char, 8> text = {'i', 'n', 'l', 'i', 'n', 'e', '!', '\0'};
  ibv_send_wr wr = send_wr(2, IBV_WR_SEND);
  wr.send_flags |= IBV_SEND_INLINE;
  pair.a.send(wr,
              {{.addr = reinterpret_cast<std::uintptr_t>(text.data()), .length = 8, .lkey = 0}});
  text.fill('x');
  CHECK(pair.b.wait_for_completion().byte_len == 8);
  CHECK(std::memcmp(pair.b.buffer.data(), "inline!", 8) == 0);
}

TEST_CASE("a list of requests is posted up to the one that is refused, which bad_wr names") {
  Pair pair;
  std::array<ibv_sge, 1> sge = {pair.a.sge(0, 16)};
  std::array<ibv_send_wr, 3> list = {rdma_wr(1, IBV_WR_RDMA_WRITE, pair.b, 0),
                                     rdma_wr(2, IBV_WR_RDMA_WRITE, pair.b, 0),
                                     rdma_wr(3, IBV_WR_RDMA_WRITE, pair.b, 0)};
  for (ibv_send_wr& wr : list) {
    wr.sg_list = sge.data();
    wr.num_sge = 1;
  }
  list[0].next = &list[1];
  list[1].next = &list[2];
  ibv_send_wr* bad = nullptr;

  SECTION("an operation that doesn't exist") { list[1].opcode = std::bit_cast<ibv_wr_opcode>(200); }
  SECTION("more SGEs than the queue was created for") { list[1].num_sge = 5; }
  SECTION("more SGEs than any queue takes") { list[1].num_sge = 1000; }
  SECTION("a negative number of SGEs") { list[1].num_sge = -1; }
  CHECK(ibv_post_send(pair.a.qp.get(), list.data(), &bad) == EINVAL);
  CHECK(bad == &list[1]);
  CHECK(pair.a.wait_for_completion().wr_id == 1);
  ibv_wc wc{};
  CHECK(ibv_poll_cq(pair.a.cq.get(), 1, &wc) == 0);
}

TEST_CASE("a full queue refuses with ENOMEM, a queue pair that is not ready with EINVAL") {
  Side side;
  ibv_recv_wr recv{};
  ibv_recv_wr* bad_recv = nullptr;
  CHECK(ibv_post_recv(side.qp.get(), &recv, &bad_recv) == EINVAL);
  CHECK(bad_recv == &recv);
  ibv_send_wr wr = send_wr(1, IBV_WR_SEND);
  ibv_send_wr* bad = nullptr;
  CHECK(ibv_post_send(side.qp.get(), &wr, &bad) == EINVAL);

  Side peer;
  side.connect_to(peer);
  int posted = 0;
  while (ibv_post_recv(side.qp.get(), &recv, &bad_recv) == 0) {
    ++posted;
    REQUIRE(posted < 1000);
  }
  CHECK(posted >= 16);
  CHECK(ibv_post_recv(side.qp.get(), &recv, &bad_recv) == ENOMEM);
}

TEST_CASE("a WRITE beyond the peer's region fails for both, and writes nothing") {
  Pair pair;
  fill(pair.a, 0, 64, 0x77);
  pair.a.send(rdma_wr(1, IBV_WR_RDMA_WRITE, pair.b, Side::buffer_bytes - 32), {pair.a.sge(0, 64)});
  pair.a.send(rdma_wr(2, IBV_WR_RDMA_WRITE, pair.b, 0), {pair.a.sge(0, 64)});
  CHECK(pair.a.wait_for_completion().status == IBV_WC_REM_ACCESS_ERR);
  const ibv_wc flushed = pair.a.wait_for_completion();
  CHECK(flushed.status == IBV_WC_WR_FLUSH_ERR);
  CHECK(flushed.wr_id == 2);
  CHECK(holds(pair.b, 0, Side::buffer_bytes, 0));

  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(pair.b.context.get(), &event) == 0);
  CHECK(event.event_type == IBV_EVENT_QP_ACCESS_ERR);
  CHECK(event.element.qp == pair.b.qp.get());
  ibv_ack_async_event(&event);

  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  REQUIRE(ibv_query_qp(pair.b.qp.get(), &attr, IBV_QP_STATE, &init) == 0);
  CHECK(attr.qp_state == IBV_QPS_ERR);
  CHECK(pair.b.qp->state == IBV_QPS_ERR);
}

TEST_CASE("a local SGE without a valid key fails the whole request") {
  Pair pair;
  fill(pair.a, 0, 64, 0x77);
  ibv_sge bad = pair.a.sge(0, 32);
  bad.lkey ^= 0xFF;
  pair.a.send(rdma_wr(1, IBV_WR_RDMA_WRITE, pair.b, 0), {pair.a.sge(0, 32), bad});
  CHECK(pair.a.wait_for_completion().status == IBV_WC_LOC_PROT_ERR);
  CHECK(holds(pair.b, 0, 64, 0));
}

TEST_CASE("a query tells what was set, and what creation made of it") {
  Pair pair;
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  REQUIRE(ibv_query_qp(pair.a.qp.get(), &attr, 0x1FFFFF, &init) == 0);
  const ibv_qp_attr set = pair.a.attr_towards(pair.b);
  CHECK(attr.qp_state == IBV_QPS_RTS);
  CHECK(attr.path_mtu == set.path_mtu);
  CHECK(attr.dest_qp_num == set.dest_qp_num);
  CHECK(attr.rq_psn == set.rq_psn);
  CHECK(attr.sq_psn == set.sq_psn);
  CHECK(attr.timeout == set.timeout);
  CHECK(attr.retry_cnt == set.retry_cnt);
  CHECK(attr.rnr_retry == set.rnr_retry);
  CHECK(attr.min_rnr_timer == set.min_rnr_timer);
  CHECK(attr.max_rd_atomic == set.max_rd_atomic);
  CHECK(attr.qp_access_flags == set.qp_access_flags);
  CHECK(attr.ah_attr.is_global == 1);
  CHECK(std::memcmp(attr.ah_attr.grh.dgid.raw, set.ah_attr.grh.dgid.raw, 16) == 0);
  CHECK(attr.path_mig_state == IBV_MIG_MIGRATED);
  CHECK(init.send_cq == pair.a.cq.get());
  CHECK(init.qp_type == IBV_QPT_RC);
  CHECK(init.cap.max_send_wr >= 16);
  CHECK(init.cap.max_inline_data >= 64);
}

TEST_CASE("capabilities beyond the device's limits are refused") {
  const Side side;
  ibv_device_attr device{};
  REQUIRE(ibv_query_device(side.context.get(), &device) == 0);
  ibv_qp_init_attr init = side.init_attr();
  SECTION("requests") { init.cap.max_send_wr = static_cast<unsigned>(device.max_qp_wr) + 1; }
  SECTION("SGEs") { init.cap.max_recv_sge = static_cast<unsigned>(device.max_sge) + 1; }
  SECTION("inline data") { init.cap.max_inline_data = 1U << 30; }
  CHECK(ibv_create_qp(side.pd.get(), &init) == nullptr);
  CHECK(errno == EINVAL);
}

TEST_CASE("a peer that no route leads to is refused when the program connects") {
  Side a;
  const Side b;
  ibv_qp_attr attr = a.attr_towards(b);
  attr.qp_state = IBV_QPS_INIT;
  REQUIRE(ibv_modify_qp(a.qp.get(), &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  // 203.0.113.0/24 is documentation's (RFC 5737): no host has it.
  constexpr std::array<std::uint8_t, 16> elsewhere = {0, 0, 0,    0,    0,   0, 0,   0,
                                                      0, 0, 0xFF, 0xFF, 203, 0, 113, 1};
  std::ranges::copy(elsewhere, attr.ah_attr.grh.dgid.raw);
  attr.qp_state = IBV_QPS_RTR;
  CHECK(ibv_modify_qp(a.qp.get(), &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == ENETUNREACH);
  CHECK(a.qp->state == IBV_QPS_INIT);
}

TEST_CASE("states and MTUs that don't exist are refused, also as numbers that wrap") {
  Side side;
  ibv_qp_attr attr{};
  attr.qp_state = std::bit_cast<ibv_qp_state>(0x101);
  CHECK(ibv_modify_qp(side.qp.get(), &attr, IBV_QP_STATE) == EINVAL);
  CHECK(side.qp->state == IBV_QPS_RESET);
}

TEST_CASE("CQs need at least one entry and a vector that exists") {
  const ContextPtr context = open_context();
  const auto create = [&](int cqe, int vector) {
    const CqPtr cq(ibv_create_cq(context.get(), cqe, nullptr, nullptr, vector));
    return cq == nullptr ? errno : 0;
  };
  ibv_device_attr device{};
  REQUIRE(ibv_query_device(context.get(), &device) == 0);
  CHECK(create(1, 0) == 0);
  CHECK(create(0, 0) == EINVAL);
  CHECK(create(-1, 0) == EINVAL);
  CHECK(create(device.max_cqe + 1, 0) == EINVAL);
  CHECK(create(1, context->num_comp_vectors) == EINVAL);
  CHECK(create(1, -1) == EINVAL);
}
