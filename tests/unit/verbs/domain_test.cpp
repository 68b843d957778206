// Shared receive queues, parent domains and thread domains, as programs use them.

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <set>

#include "tests/unit/verbs/fixture.h"

using namespace verbena::test;

namespace {

/// An allocator that knows what it gave out.
struct Arena {
  static void* alloc(ibv_pd*, void* context, std::size_t bytes, std::size_t alignment,
                     std::uint64_t) {
    auto& arena = *static_cast<Arena*>(context);
    if (arena.declines) {
      return IBV_ALLOCATOR_USE_DEFAULT;
    }
    if (arena.is_exhausted) {
      return nullptr;
    }
    void* memory = nullptr;
    REQUIRE(::posix_memalign(&memory, alignment, bytes) == 0);
    arena.pieces.insert(memory);
    return memory;
  }
  static void free(ibv_pd*, void* context, void* memory, std::uint64_t) {
    CHECK(static_cast<Arena*>(context)->pieces.erase(memory) == 1);
    std::free(memory);
  }
  std::set<void*> pieces;
  bool declines = false;
  bool is_exhausted = false;
};

PdPtr parent_domain(const Side& side, Arena* arena, ibv_td* td = nullptr) {
  ibv_parent_domain_init_attr attr{};
  attr.pd = side.pd.get();
  attr.td = td;
  if (arena != nullptr) {
    attr.comp_mask =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    attr.alloc = Arena::alloc;
    attr.free = Arena::free;
    attr.pd_context = arena;
  }
  return PdPtr(ibv_alloc_parent_domain(side.context.get(), &attr));
}

using SrqPtr = std::unique_ptr<ibv_srq, Destroyer<ibv_srq, ibv_destroy_srq>>;

SrqPtr shared_queue(ibv_pd* pd) {
  ibv_srq_init_attr attr{};
  attr.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 1000};
  return SrqPtr(ibv_create_srq(pd, &attr));
}

void post_shared(ibv_srq* srq, std::uint64_t wr_id, ibv_sge sge) {
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  REQUIRE(ibv_post_srq_recv(srq, &wr, &bad) == 0);
}

}  // namespace

TEST_CASE("objects of a parent domain lie in its memory, until they are destroyed") {
  Side side;
  Arena arena;
  const PdPtr parent = parent_domain(side, &arena);
  REQUIRE(parent != nullptr);
  {
    const SrqPtr srq = shared_queue(parent.get());
    REQUIRE(srq != nullptr);
    ibv_qp_init_attr init = side.init_attr();
    const QpPtr qp(ibv_create_qp(parent.get(), &init));
    REQUIRE(qp != nullptr);
    ibv_cq_init_attr_ex cq_attr{};
    cq_attr.cqe = 4;
    cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    cq_attr.parent_domain = parent.get();
    const CqPtr cq(ibv_cq_ex_to_cq(ibv_create_cq_ex(side.context.get(), &cq_attr)));
    REQUIRE(cq != nullptr);
    CHECK(arena.pieces == std::set<void*>{srq.get(), qp.get(), cq.get()});
    CHECK(ibv_dealloc_pd(parent.get()) == EBUSY);
  }
  CHECK(arena.pieces.empty());
}

TEST_CASE("an allocator may decline, or have nothing left") {
  Side side;
  Arena arena;
  const PdPtr parent = parent_domain(side, &arena);
  arena.declines = true;
  CHECK(shared_queue(parent.get()) != nullptr);
  arena.declines = false;
  arena.is_exhausted = true;
  CHECK(shared_queue(parent.get()) == nullptr);
  CHECK(errno == ENOMEM);
}

TEST_CASE("a parent domain keeps its protection domain and its thread domain") {
  Side side;
  ibv_td_init_attr td_attr{};
  ibv_td* const td = ibv_alloc_td(side.context.get(), &td_attr);
  REQUIRE(td != nullptr);
  {
    const PdPtr parent = parent_domain(side, nullptr, td);
    REQUIRE(parent != nullptr);
    CHECK(ibv_dealloc_td(td) == EBUSY);
    // Regions of the domain serve queue pairs of the parent domain: it is the same domain.
    const MrPtr mr(ibv_reg_mr(parent.get(), side.buffer.data(), 64, IBV_ACCESS_LOCAL_WRITE));
    CHECK(mr != nullptr);
  }
  CHECK(ibv_dealloc_td(td) == 0);
}

TEST_CASE("a parent domain without a protection domain is refused") {
  const Side side;
  ibv_parent_domain_init_attr attr{};
  CHECK(ibv_alloc_parent_domain(side.context.get(), &attr) == nullptr);
  CHECK(errno == EINVAL);
}

TEST_CASE("messages take their requests from a shared queue, and its limit is an event") {
  Pair pair;
  const SrqPtr srq = shared_queue(pair.b.pd.get());
  ibv_qp_init_attr init = pair.b.init_attr();
  init.srq = srq.get();
  pair.b.qp.reset(ibv_create_qp(pair.b.pd.get(), &init));
  REQUIRE(pair.b.qp != nullptr);
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  REQUIRE(ibv_modify_qp(pair.a.qp.get(), &reset, IBV_QP_STATE) == 0);
  pair.a.connect_to(pair.b);
  pair.b.connect_to(pair.a);
  post_shared(srq.get(), 1, pair.b.sge(0, 64));
  post_shared(srq.get(), 2, pair.b.sge(64, 64));
  ibv_srq_attr attr{};
  attr.srq_limit = 2;
  REQUIRE(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT) == 0);
  REQUIRE(ibv_query_srq(srq.get(), &attr) == 0);
  CHECK(attr.srq_limit == 2);
  CHECK(attr.max_wr >= 8);

  std::memcpy(pair.a.buffer.data(), "shared", 6);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  pair.a.send(wr, {pair.a.sge(0, 6)});
  const ibv_wc wc = pair.b.wait_for_completion();
  CHECK(wc.wr_id == 1);
  CHECK(wc.qp_num == pair.b.qp->qp_num);
  CHECK(std::memcmp(pair.b.buffer.data(), "shared", 6) == 0);

  ibv_async_event event{};
  do {
    REQUIRE(ibv_get_async_event(pair.b.context.get(), &event) == 0);
    ibv_ack_async_event(&event);
  } while (event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED);
  CHECK(event.element.srq == srq.get());
  CHECK(ibv_destroy_srq(srq.get()) == EBUSY);
  pair.b.qp.reset();
}

TEST_CASE("shared queues refuse types and attributes that the device doesn't have") {
  const Side side;
  ibv_srq_init_attr_ex attr{};
  attr.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TM;
  attr.srq_type = IBV_SRQT_TM;
  attr.pd = side.pd.get();
  CHECK(ibv_create_srq_ex(side.context.get(), &attr) == nullptr);
  CHECK(errno == EOPNOTSUPP);
}

TEST_CASE("contexts that open an XRC domain under the same file share it") {
  const ContextPtr one = open_context();
  const ContextPtr other = open_context();
  const int fd = ::open("/dev/null", O_RDONLY);
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = fd;
  CHECK(ibv_open_xrcd(one.get(), &attr) == nullptr);
  CHECK(errno == EAGAIN);
  attr.oflags = O_CREAT;
  ibv_xrcd* const first = ibv_open_xrcd(one.get(), &attr);
  REQUIRE(first != nullptr);
  ibv_xrcd* const second = ibv_open_xrcd(other.get(), &attr);
  REQUIRE(second != nullptr);
  attr.oflags = O_CREAT | O_EXCL;
  CHECK(ibv_open_xrcd(other.get(), &attr) == nullptr);
  CHECK(errno == EINVAL);

  // A queue of the one context keeps the domain, not the handle of the other.
  const PdPtr pd(ibv_alloc_pd(one.get()));
  const CqPtr cq(ibv_create_cq(one.get(), 4, nullptr, nullptr, 0));
  ibv_srq_init_attr_ex init{};
  init.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  init.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  init.srq_type = IBV_SRQT_XRC;
  init.pd = pd.get();
  init.xrcd = first;
  init.cq = cq.get();
  SrqPtr srq(ibv_create_srq_ex(one.get(), &init));
  REQUIRE(srq != nullptr);
  std::uint32_t number = 0;
  CHECK(ibv_get_srq_num(srq.get(), &number) == 0);
  CHECK(number != 0);
  CHECK(ibv_close_xrcd(second) == 0);
  CHECK(ibv_close_xrcd(first) == EBUSY);
  srq.reset();
  CHECK(ibv_close_xrcd(first) == 0);
  ::close(fd);
}

TEST_CASE("a completion queue is resized while completions wait in it") {
  Pair pair;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {.remote_addr = pair.b.sge(0, 8).addr, .rkey = pair.b.mr->rkey};
    pair.a.send(wr, {pair.a.sge(0, 8)});
  }
  CHECK(pair.a.wait_for_completion().wr_id == 1);
  CHECK(ibv_resize_cq(pair.a.cq.get(), 500) == 0);
  CHECK(pair.a.cq->cqe >= 500);
  CHECK(pair.a.wait_for_completion().wr_id == 2);
  CHECK(pair.a.wait_for_completion().wr_id == 3);
  CHECK(ibv_resize_cq(pair.a.cq.get(), 0) == EINVAL);
}
