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

TEST_CASE(
    "a huge region is registered without bringing it into memory, and without missing a gap") {
  const Domain domain;
  constexpr std::size_t bytes = std::size_t{8} << 30;
  const auto page = static_cast<std::size_t>(::getpagesize());
  void* const base = ::mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(base != MAP_FAILED);
  auto* const data = static_cast<std::byte*>(base);
  // Behind it nobody may look, whatever else the process has mapped.
  REQUIRE(::mprotect(data + bytes, page, PROT_NONE) == 0);
  CHECK(domain.try_to_register(data, bytes, IBV_ACCESS_LOCAL_WRITE) == 0);
  // Of pages here and there only that at either end has been touched.
  constexpr std::size_t samples = 64;
  for (std::size_t i = 1; i < samples; ++i) {
    unsigned char residency = 0;
    REQUIRE(::mincore(data + i * (bytes / samples), page, &residency) == 0);
    CHECK((residency & 1) == 0);
  }

  // A part that may be read only, and then one that isn't there.
  std::byte* const part = data + bytes / 2;
  REQUIRE(::mprotect(part, page, PROT_READ) == 0);
  CHECK(domain.try_to_register(data, bytes, IBV_ACCESS_LOCAL_WRITE) == EFAULT);
  CHECK(domain.try_to_register(data, bytes, IBV_ACCESS_REMOTE_READ) == 0);
  REQUIRE(::munmap(part, page) == 0);
  CHECK(domain.try_to_register(data, bytes, IBV_ACCESS_REMOTE_READ) == EFAULT);
  CHECK(domain.try_to_register(part + page, bytes / 2 - page, IBV_ACCESS_LOCAL_WRITE) == 0);
  CHECK(domain.try_to_register(part + page, bytes / 2, IBV_ACCESS_LOCAL_WRITE) == EFAULT);
  ::munmap(data, bytes / 2);
  ::munmap(part + page, bytes / 2);
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
  CHECK(with(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING) == 0);
  CHECK(with(IBV_ACCESS_LOCAL_WRITE | 1U << 29) == 0);
}

TEST_CASE("demand-paged memory may be registered before it exists, implicit regions over all") {
  const Domain domain;
  const unsigned on_demand = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;
  std::byte* nothing = nullptr;
  {
    const Pages pages(1, PROT_READ | PROT_WRITE);
    nothing = pages.data;
  }
  CHECK(domain.try_to_register(nothing, 4096, on_demand) == 0);
  CHECK(domain.try_to_register(nullptr, SIZE_MAX, on_demand) == 0);
  CHECK(domain.try_to_register(nullptr, 0, on_demand) == EINVAL);
}

TEST_CASE("a prefetch brings demand-paged memory in, and says what it can't") {
  const Domain domain;
  const Pages pages(2, PROT_READ | PROT_WRITE);
  const unsigned on_demand = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;
  const MrPtr mr(ibv_reg_mr_iova2(domain.pd.get(), nullptr, SIZE_MAX, 0, on_demand));
  REQUIRE(mr != nullptr);
  const auto prefetch = [&](void* start, std::uint32_t lkey, ibv_advise_mr_advice advice,
                            std::uint32_t flags) {
    ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(start),
                .length = static_cast<std::uint32_t>(pages.bytes),
                .lkey = lkey};
    return ibv_advise_mr(domain.pd.get(), advice, flags, &sge, 1);
  };
  constexpr auto write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  CHECK(prefetch(pages.data, mr->lkey, write, IBV_ADVISE_MR_FLAG_FLUSH) == 0);
  CHECK(prefetch(pages.data + pages.page, mr->lkey, write, IBV_ADVISE_MR_FLAG_FLUSH) == EFAULT);
  CHECK(prefetch(pages.data + pages.page, mr->lkey, write, 0) == 0);
  CHECK(prefetch(pages.data, mr->lkey + 1, write, 0) == ENOENT);
  const MrPtr pinned(ibv_reg_mr_iova2(domain.pd.get(), pages.data, pages.bytes, 0, 0));
  CHECK(prefetch(nullptr, pinned->lkey, IBV_ADVISE_MR_ADVICE_PREFETCH, 0) == EPERM);
}

TEST_CASE("re-registration changes what it names and keeps the keys") {
  const Domain domain;
  const Pages pages(2, PROT_READ | PROT_WRITE);
  const PdPtr other(ibv_alloc_pd(domain.context.get()));
  const MrPtr mr(ibv_reg_mr_iova2(domain.pd.get(), pages.data, pages.page,
                                  reinterpret_cast<std::uintptr_t>(pages.data), 0));
  const std::uint32_t lkey = mr->lkey;
  CHECK(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD,
                     other.get(), pages.data + pages.page, pages.page, 0) == 0);
  CHECK(mr->addr == pages.data + pages.page);
  CHECK(mr->pd == other.get());
  CHECK(mr->lkey == lkey);
  CHECK(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_PD, domain.pd.get(), nullptr, 0, 0) == 0);
}

TEST_CASE("re-registrations that can't be are refused and leave the region as it is") {
  const Domain domain;
  const Pages pages(1, PROT_READ | PROT_WRITE);
  const MrPtr mr(ibv_reg_mr_iova2(domain.pd.get(), pages.data, pages.bytes, 0, 0));
  CHECK(ibv_rereg_mr(mr.get(), 0, nullptr, nullptr, 0, 0) == IBV_REREG_MR_ERR_INPUT);
  CHECK(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                     IBV_ACCESS_REMOTE_WRITE) == IBV_REREG_MR_ERR_CMD);
  CHECK(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, pages.data + pages.bytes,
                     1, 0) == IBV_REREG_MR_ERR_CMD);
  CHECK(errno == EFAULT);
  CHECK(mr->addr == pages.data);
}

TEST_CASE("device memory keeps what is copied to it, word by word and within its bounds") {
  const Domain domain;
  ibv_alloc_dm_attr attr{};
  attr.length = 64;
  ibv_dm* const dm = ibv_alloc_dm(domain.context.get(), &attr);
  REQUIRE(dm != nullptr);
  CHECK(ibv_memcpy_to_dm(dm, 8, "12345678", 8) == 0);
  char back[8] = {};
  CHECK(ibv_memcpy_from_dm(back, dm, 8, 8) == 0);
  CHECK(std::string(back, 8) == "12345678");
  CHECK(ibv_memcpy_to_dm(dm, 60, "12345678", 8) == EFAULT);
  CHECK(ibv_memcpy_from_dm(back, dm, 3, 4) == EINVAL);
  CHECK(ibv_memcpy_from_dm(back, dm, ~std::uint64_t{0}, 8) == EFAULT);

  ibv_mr* const mr =
      ibv_reg_dm_mr(domain.pd.get(), dm, 0, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
  REQUIRE(mr != nullptr);
  CHECK(ibv_free_dm(dm) == EBUSY);
  CHECK(ibv_dereg_mr(mr) == 0);
  CHECK(ibv_free_dm(dm) == 0);
}

TEST_CASE("another context of the device imports domains, regions and device memory") {
  const Domain domain;
  const Pages pages(1, PROT_READ | PROT_WRITE);
  const MrPtr mr(ibv_reg_mr_iova2(domain.pd.get(), pages.data, pages.bytes, 0, 0));
  ibv_alloc_dm_attr attr{};
  attr.length = 64;
  ibv_dm* const dm = ibv_alloc_dm(domain.context.get(), &attr);

  const ContextPtr imported(ibv_import_device(::dup(domain.context->cmd_fd)));
  REQUIRE(imported != nullptr);
  ibv_pd* const pd = ibv_import_pd(imported.get(), domain.pd->handle);
  REQUIRE(pd != nullptr);
  ibv_mr* const same = ibv_import_mr(pd, mr->handle);
  REQUIRE(same != nullptr);
  CHECK(same->rkey == mr->rkey);
  ibv_dm* const shared = ibv_import_dm(imported.get(), dm->handle);
  REQUIRE(shared != nullptr);
  CHECK(ibv_memcpy_to_dm(shared, 0, "1234", 4) == 0);
  char back[4] = {};
  CHECK(ibv_memcpy_from_dm(back, dm, 0, 4) == 0);
  CHECK(std::string(back, 4) == "1234");

  CHECK(ibv_free_dm(dm) == EBUSY);
  ibv_unimport_dm(shared);
  CHECK(ibv_free_dm(dm) == 0);
  ibv_unimport_mr(same);
  ibv_unimport_pd(pd);
  CHECK(ibv_import_pd(imported.get(), 0xFFFF) == nullptr);
  CHECK(errno == ENOENT);
}

TEST_CASE("a descriptor that is no context's can't be imported") {
  const Domain domain;
  CHECK(ibv_import_device(STDIN_FILENO) == nullptr);
  CHECK(errno == EINVAL);
}

TEST_CASE("windows are of type 1 or 2") {
  const Domain domain;
  ibv_mw* const mw = ibv_alloc_mw(domain.pd.get(), IBV_MW_TYPE_2);
  REQUIRE(mw != nullptr);
  CHECK(mw->type == IBV_MW_TYPE_2);
  CHECK(ibv_dealloc_mw(mw) == 0);
  CHECK(ibv_alloc_mw(domain.pd.get(), static_cast<ibv_mw_type>(3)) == nullptr);
  CHECK(errno == EINVAL);
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
