// A child of fork(): what it inherits is dead but can be put away, what it opens works.

#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <initializer_list>

#include "tests/unit/verbs/fixture.h"

using namespace verbena::test;

namespace {

/// Runs `child` in a child and returns what it returned: 0, or the number of the step that failed.
template <class Child>
int run_in_child(Child&& child) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ::_exit(child());
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

/// The number of the first step that went wrong, from 1 on; 0 if none did.
int first_failure(std::initializer_list<bool> steps) {
  int number = 1;
  for (const bool went_well : steps) {
    if (!went_well) {
      return number;
    }
    ++number;
  }
  return 0;
}

}  // namespace

TEST_CASE("fork() needs no preparation") {
  CHECK(ibv_fork_init() == 0);
  CHECK(ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
}

TEST_CASE("in a child, inherited objects answer EIO and can be destroyed") {
  Pair pair;
  const int failed_step = run_in_child([&] {
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    ibv_wc wc{};
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    ibv_async_event event{};
    ibv_context* const context = pair.a.context.get();
    return first_failure({
        ibv_post_send(pair.a.qp.get(), &wr, &bad) == EIO,
        ibv_poll_cq(pair.a.cq.get(), 1, &wc) == -1,
        ibv_req_notify_cq(pair.a.cq.get(), 0) == EIO,
        ibv_get_cq_event(pair.a.channel.get(), &cq, &cq_context) == -1 && errno == EIO,
        ibv_get_async_event(context, &event) == -1 && errno == EIO,
        ibv_alloc_pd(context) == nullptr && errno == EIO,
        ibv_destroy_qp(pair.a.qp.get()) == 0,
        ibv_destroy_cq(pair.a.cq.get()) == 0,
        ibv_destroy_comp_channel(pair.a.channel.get()) == 0,
        ibv_dereg_mr(pair.a.mr.get()) == 0,
        ibv_dealloc_pd(pair.a.pd.get()) == 0,
        ibv_close_device(context) == 0,
    });
  });
  CHECK(failed_step == 0);
  // And the parent's are as they were.
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(pair.b.buffer.data());
  wr.wr.rdma.rkey = pair.b.mr->rkey;
  pair.a.send(wr, {pair.a.sge(0, 16)});
  CHECK(pair.a.wait_for_completion().status == IBV_WC_SUCCESS);
}

TEST_CASE("a child opens devices of its own") {
#ifdef __SANITIZE_THREAD__
  // In a child, ThreadSanitizer still counts the parent's threads as running: it ends the process
  // when a new one gets the address of an old one's stack, which is where it goes.
  WARN("not under ThreadSanitizer, which can't follow threads that a child of fork() starts");
  return;
#endif
  const ContextPtr parents = open_context();
  const int failed_step = run_in_child([] {
    ibv_device** list = ibv_get_device_list(nullptr);
    ibv_context* context = ibv_open_device(list[0]);
    if (context == nullptr) {
      return 1;
    }
    ibv_pd* pd = ibv_alloc_pd(context);
    return first_failure({true, pd != nullptr, pd != nullptr && ibv_dealloc_pd(pd) == 0,
                          ibv_close_device(context) == 0});
  });
  CHECK(failed_step == 0);
}
