// Registration refuses what a real NIC could not pin, and rights that contradict each other.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "tests/unit/verbs/fixture.h"

using namespace verbena::test;

namespace {

/// Pages of the given protection between two pages where nothing is mapped.
class Pages {
 public:
  Pages(std::size_t count, int protection) : page(static_cast<std::size_t>(::getpagesize())) {
    base_ = ::mmap(nullptr, (count + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(base_ != MAP_FAILED);
    bytes = count * page;
    data = static_cast<std::byte*>(base_) + page;
    REQUIRE(::mprotect(data, bytes, protection) == 0);
    ::munmap(base_, page);
    ::munmap(data + bytes, page);
  }
  ~Pages() { ::munmap(data, bytes); }

  std::size_t page;
  std::size_t bytes = 0;
  std::byte* data = nullptr;

 private:
  void* base_ = nullptr;
};

struct Domain {
  ContextPtr context = open_context();
  PdPtr pd{ibv_alloc_pd(context.get())};

  /// The errno of a registration, 0 if it succeeds.
  int try_to_register(void* address, std::size_t length, unsigned access) const {
    const MrPtr mr(ibv_reg_mr_iova2(pd.get(), address, length,
                                    reinterpret_cast<std::uintptr_t>(address), access));
    return mr == nullptr ? errno : 0;
  }
};

}  // namespace

TEST_CASE("a registered region tells what was registered, and its keys") {
  const Side side;
  CHECK(side.mr->context == side.context.get());
  CHECK(side.mr->pd == side.pd.get());
  CHECK(side.mr->addr == side.buffer.data());
  CHECK(side.mr->length == side.buffer.size());
  CHECK(side.mr->lkey != 0);
  CHECK(side.mr->rkey != 0);
}

TEST_CASE("memory that is not mapped, wholly or in part, is refused with EFAULT") {
  const Domain domain;
  const Pages pages(2, PROT_READ | PROT_WRITE);
  CHECK(domain.try_to_register(pages.data, pages.bytes, IBV_ACCESS_LOCAL_WRITE) == 0);
  CHECK(domain.try_to_register(pages.data, pages.bytes + 1, IBV_ACCESS_LOCAL_WRITE) == EFAULT);
  CHECK(domain.try_to_register(pages.data - 1, 2, IBV_ACCESS_LOCAL_WRITE) == EFAULT);
  CHECK(domain.try_to_register(nullptr, 4096, 0) == EFAULT);
}

TEST_CASE("read-only memory is registered for reading only") {
  const Domain domain;
  const Pages pages(1, PROT_READ);
  CHECK(domain.try_to_register(pages.data, pages.bytes, 0) == 0);
  CHECK(domain.try_to_register(pages.data, pages.bytes, IBV_ACCESS_REMOTE_READ) == 0);
  CHECK(domain.try_to_register(pages.data, pages.bytes, IBV_ACCESS_LOCAL_WRITE) == EFAULT);
}

TEST_CASE("memory without any access is refused with EFAULT") {
  const Domain domain;
  const Pages pages(1, PROT_NONE);
  CHECK(domain.try_to_register(pages.data, pages.bytes, 0) == EFAULT);
}

TEST_CASE("empty ranges and ranges that wrap around are refused with EINVAL") {
  const Domain domain;
  const Pages pages(1, PROT_READ | PROT_WRITE);
  CHECK(domain.try_to_register(pages.data, 0, 0) == EINVAL);
  CHECK(domain.try_to_register(pages.data, ~std::size_t{0}, 0) == EINVAL);
}

TEST_CASE("access flags: contradictions and unknown rights are refused, optional rights ignored") {
  const Domain domain;
  const Pages pages(1, PROT_READ | PROT_WRITE);
  const auto with = [&](unsigned access) {
    return domain.try_to_register(pages.data, pages.bytes, access);
  };
  CHECK(with(IBV_ACCESS_REMOTE_WRITE) == EINVAL);
  CHECK(with(IBV_ACCESS_REMOTE_ATOMIC) == EINVAL);
  CHECK(with(1U << 15) == EINVAL);
  CHECK(with(IBV_ACCESS_ON_DEMAND) == EOPNOTSUPP);
  CHECK(with(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING) == 0);
  CHECK(with(IBV_ACCESS_LOCAL_WRITE | 1U << 29) == 0);
}

TEST_CASE("re-registration is refused and leaves the region as it is") {
  const Side side;
  CHECK(ibv_rereg_mr(side.mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0) ==
        IBV_REREG_MR_ERR_INPUT);
  CHECK(errno == EOPNOTSUPP);
}

TEST_CASE("what others use can't be destroyed: EBUSY") {
  // IBTA vol 1, C11-17: a domain with a region, a CQ with a queue pair, a channel with a CQ.
  const Side side;
  CHECK(ibv_dealloc_pd(side.pd.get()) == EBUSY);
  CHECK(ibv_destroy_cq(side.cq.get()) == EBUSY);
  CHECK(ibv_destroy_comp_channel(side.channel.get()) == EBUSY);
}

TEST_CASE("closing a device takes its objects from the NIC; destroying them later frees memory") {
  ContextPtr context = open_context();
  std::vector<std::byte> buffer(4096);
  ibv_pd* pd = ibv_alloc_pd(context.get());
  ibv_mr* mr = ibv_reg_mr(pd, buffer.data(), buffer.size(), IBV_ACCESS_LOCAL_WRITE);
  ibv_cq* cq = ibv_create_cq(context.get(), 8, nullptr, nullptr, 0);
  // Another context keeps the engine alive: the objects must not live on in it.
  const ContextPtr other = open_context();
  context.reset();
  CHECK(ibv_dereg_mr(mr) == 0);
  CHECK(ibv_destroy_cq(cq) == 0);
  CHECK(ibv_dealloc_pd(pd) == 0);
}
