// Completion channels, asynchronous events, and destruction that waits for acknowledgements.

#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <cstddef>
#include <thread>

#include "tests/unit/verbs/fixture.h"

using namespace verbena::test;

namespace {

bool is_readable(int fd, int timeout_ms = 0) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, timeout_ms) == 1;
}

/// Sends one message from a to b and waits until it has completed at the sender.
void send_one(Pair& pair, unsigned flags = 0) {
  pair.b.receive(1, {pair.b.sge(0, 64)});
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED | flags;
  pair.a.send(wr, {pair.a.sge(0, 16)});
  REQUIRE(pair.a.wait_for_completion().status == IBV_WC_SUCCESS);
}

/// Makes b's queue pair fail with an access error.
void fail_b(Pair& pair) {
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma.rkey = pair.b.mr->rkey ^ 0xFF;
  pair.a.send(wr, {pair.a.sge(0, 16)});
  REQUIRE(pair.a.wait_for_completion().status == IBV_WC_REM_ACCESS_ERR);
}

constexpr int patience_ms = static_cast<int>(patience.count());

}  // namespace

TEST_CASE("an armed CQ gives one event, with its context, for the next completion") {
  Pair pair;
  send_one(pair);
  REQUIRE(ibv_req_notify_cq(pair.b.cq.get(), 0) == 0);
  // What is in the queue already doesn't count (IBTA vol 1, 11.4.2.2).
  CHECK_FALSE(is_readable(pair.b.channel->fd));
  send_one(pair);
  CHECK(is_readable(pair.b.channel->fd, patience_ms));
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  REQUIRE(ibv_get_cq_event(pair.b.channel.get(), &cq, &context) == 0);
  CHECK(cq == pair.b.cq.get());
  CHECK(context == &pair.b);
  ibv_ack_cq_events(cq, 1);
  send_one(pair);
  CHECK_FALSE(is_readable(pair.b.channel->fd));
}

TEST_CASE("a CQ armed for solicited completions keeps silent at others") {
  Pair pair;
  REQUIRE(ibv_req_notify_cq(pair.b.cq.get(), 1) == 0);
  send_one(pair);
  CHECK_FALSE(is_readable(pair.b.channel->fd));
  send_one(pair, IBV_SEND_SOLICITED);
  CHECK(is_readable(pair.b.channel->fd, patience_ms));
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  REQUIRE(ibv_get_cq_event(pair.b.channel.get(), &cq, &context) == 0);
  ibv_ack_cq_events(cq, 1);
}

TEST_CASE("a non-blocking channel answers EAGAIN when it has nothing") {
  const Side side;
  REQUIRE(::fcntl(side.channel->fd, F_SETFL, O_NONBLOCK) == 0);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  CHECK(ibv_get_cq_event(side.channel.get(), &cq, &context) == -1);
  CHECK(errno == EAGAIN);
}

TEST_CASE("destroying a CQ drops its unread events") {
  Pair pair;
  REQUIRE(ibv_req_notify_cq(pair.b.cq.get(), 0) == 0);
  send_one(pair);
  REQUIRE(is_readable(pair.b.channel->fd, patience_ms));
  pair.b.qp.reset();
  pair.b.cq.reset();
  CHECK_FALSE(is_readable(pair.b.channel->fd));
}

TEST_CASE("destroying a CQ waits until its events are acknowledged") {
  Pair pair;
  REQUIRE(ibv_req_notify_cq(pair.b.cq.get(), 0) == 0);
  send_one(pair);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  REQUIRE(ibv_get_cq_event(pair.b.channel.get(), &cq, &context) == 0);
  pair.b.qp.reset();
  std::atomic<bool> destroyed{false};
  int result = -1;
  std::thread destroyer([&] {
    result = ibv_destroy_cq(pair.b.cq.release());
    destroyed = true;
  });
  // That it waits can't be seen without waiting; that it ends only after this can.
  CHECK_FALSE(destroyed);
  ibv_ack_cq_events(cq, 1);
  destroyer.join();
  CHECK(result == 0);
}

TEST_CASE("an asynchronous event names its queue pair, whose destruction waits for it") {
  Pair pair;
  CHECK_FALSE(is_readable(pair.b.context->async_fd));
  fail_b(pair);
  REQUIRE(is_readable(pair.b.context->async_fd, patience_ms));
  // The other context of the same engine hears nothing of it.
  CHECK_FALSE(is_readable(pair.a.context->async_fd));
  ibv_async_event event{};
  REQUIRE(ibv_get_async_event(pair.b.context.get(), &event) == 0);
  CHECK(event.event_type == IBV_EVENT_QP_ACCESS_ERR);
  CHECK(event.element.qp == pair.b.qp.get());
  std::atomic<bool> destroyed{false};
  int result = -1;
  std::thread destroyer([&] {
    result = ibv_destroy_qp(pair.b.qp.release());
    destroyed = true;
  });
  CHECK_FALSE(destroyed);
  ibv_ack_async_event(&event);
  destroyer.join();
  CHECK(result == 0);
}

TEST_CASE("destroying a queue pair drops its unread asynchronous events") {
  Pair pair;
  fail_b(pair);
  REQUIRE(is_readable(pair.b.context->async_fd, patience_ms));
  pair.b.qp.reset();
  CHECK_FALSE(is_readable(pair.b.context->async_fd));
}

TEST_CASE("a thread that waits for an event is woken by it") {
  Pair pair;
  REQUIRE(ibv_req_notify_cq(pair.b.cq.get(), 0) == 0);
  ibv_cq* cq = nullptr;
  int result = -1;
  std::thread waiter([&] {
    void* context = nullptr;
    result = ibv_get_cq_event(pair.b.channel.get(), &cq, &context);
  });
  send_one(pair);
  waiter.join();
  CHECK(result == 0);
  CHECK(cq == pair.b.cq.get());
  ibv_ack_cq_events(cq, 1);
}
