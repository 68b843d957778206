// What a queue pair completed and nobody has polled goes with its RESET and with its end, as it
// does with hardware's drivers; also while other threads poll.

#include <poll.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <thread>

#include "tests/unit/verbs/fixture.h"

using namespace verbena::test;

namespace {

void post_write(Pair& pair) {
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(pair.b.buffer.data());
  wr.wr.rdma.rkey = pair.b.mr->rkey;
  pair.a.send(wr, {pair.a.sge(0, 16)});
}

/// Leaves a completion in a's queue.
void complete_one(Pair& pair) {
  REQUIRE(ibv_req_notify_cq(pair.a.cq.get(), 0) == 0);
  post_write(pair);
  pollfd entry{.fd = pair.a.channel->fd, .events = POLLIN, .revents = 0};
  REQUIRE(::poll(&entry, 1, static_cast<int>(patience.count())) == 1);
}

void reset(const Side& side) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  REQUIRE(ibv_modify_qp(side.qp.get(), &attr, IBV_QP_STATE) == 0);
}

}  // namespace

TEST_CASE("a RESET takes away the completions that nobody has polled") {
  Pair pair;
  complete_one(pair);
  reset(pair.a);
  ibv_wc wc{};
  CHECK(ibv_poll_cq(pair.a.cq.get(), 1, &wc) == 0);
}

TEST_CASE("the destruction of a queue pair takes away the completions that nobody has polled") {
  Pair pair;
  complete_one(pair);
  pair.a.qp.reset();
  ibv_wc wc{};
  CHECK(ibv_poll_cq(pair.a.cq.get(), 1, &wc) == 0);
}

TEST_CASE("a queue pair may be reset while another thread polls its completions") {
  Pair pair;
  std::atomic<bool> stop{false};
  int bad = 0;
  std::thread poller([&] {
    std::array<ibv_wc, 4> wc{};
    while (!stop) {
      const int taken = ibv_poll_cq(pair.a.cq.get(), static_cast<int>(wc.size()), wc.data());
      bad += taken < 0 ? 1 : 0;
      for (int i = 0; i < taken; ++i) {
        bad += wc[static_cast<std::size_t>(i)].status == IBV_WC_SUCCESS ? 0 : 1;
      }
    }
  });
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 8; ++i) {
      post_write(pair);
    }
    reset(pair.a);
    reset(pair.b);
    pair.a.connect_to(pair.b);
    pair.b.connect_to(pair.a);
  }
  stop = true;
  poller.join();
  CHECK(bad == 0);
}
