#include "verbs/mr.h"

#include "proto/memory_access.h"
#include "verbs/errors.h"
#include "verbs/mapped.h"
#include "verbs/pd.h"

namespace verbena::verbs {

static_assert(to_value(Access::local_write) == IBV_ACCESS_LOCAL_WRITE);
static_assert(to_value(Access::remote_write) == IBV_ACCESS_REMOTE_WRITE);
static_assert(to_value(Access::remote_read) == IBV_ACCESS_REMOTE_READ);
static_assert(to_value(Access::remote_atomic) == IBV_ACCESS_REMOTE_ATOMIC);
static_assert(to_value(Access::mw_bind) == IBV_ACCESS_MW_BIND);
static_assert(to_value(Access::zero_based) == IBV_ACCESS_ZERO_BASED);
static_assert(to_value(Access::on_demand) == IBV_ACCESS_ON_DEMAND);
static_assert(to_value(Access::huge_tlb) == IBV_ACCESS_HUGETLB);
static_assert(to_value(Access::relaxed_ordering) == IBV_ACCESS_RELAXED_ORDERING);

Result<void, nic::NicError> MemoryRegion::release() {
  auto released =
      owner().engine().with_nic([&](nic::Nic& nic, Time) { return nic.dereg_mr(*nic_mr); });
  if (released) {
    nic_mr = nullptr;
  }
  return released;
}

namespace {

constexpr Access known_access = Access::local_write | Access::remote_write | Access::remote_read |
                                Access::remote_atomic | Access::mw_bind | Access::zero_based |
                                Access::on_demand | Access::huge_tlb | Access::relaxed_ordering;

/// Unknown rights are refused, but for those that rdma-core declares optional: a device may ignore
/// them.
Result<Access, Errno> checked_access(unsigned bits) {
  const unsigned known = to_value(known_access);
  if ((bits & ~known & ~unsigned{IBV_ACCESS_OPTIONAL_RANGE}) != 0) {
    return failed(EINVAL);
  }
  const Access access{bits & known};
  if (allows(access, Access::on_demand)) {
    return failed(EOPNOTSUPP);
  }
  return access;
}

/// As the kernel decides it: these rights let the NIC write to the pages.
bool needs_writable(Access access) {
  const Access writing =
      Access::local_write | Access::remote_write | Access::remote_atomic | Access::mw_bind;
  return (to_value(access) & to_value(writing)) != 0;
}

Created<ibv_mr> reg_mr(ibv_pd* base_pd, void* address, std::size_t length, std::uint64_t iova,
                       unsigned access_bits) {
  const auto& pd = ProtectionDomain::of(base_pd);
  Context& context = pd.owner();
  if (context.is_dead()) {
    return failed(EIO);
  }
  const auto access = checked_access(access_bits);
  if (!access) {
    return failed(access.error());
  }
  if (const Errno error = populate(address, length, needs_writable(*access))) {
    return failed(error);
  }
  auto mr = std::make_unique<MemoryRegion>();
  const Va first{allows(*access, Access::zero_based) ? 0 : iova};
  const auto registered = context.engine().with_nic([&](nic::Nic& nic, Time) {
    return nic.reg_mr(*pd.nic_pd, static_cast<std::byte*>(address), length, first, *access);
  });
  if (!registered) {
    return failed(errno_of(registered));
  }
  mr->context = &context.context;
  mr->pd = base_pd;
  mr->addr = address;
  mr->length = length;
  mr->handle = to_value((*registered)->lkey);
  mr->lkey = to_value((*registered)->lkey);
  mr->rkey = to_value((*registered)->rkey);
  mr->nic_mr = *registered;
  context.track(context.mrs, *mr);
  return mr.release();
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

// Programs get here when their access flags are a constant without optional rights ...
VERBENA_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  return create_or_null([&] {
    return reg_mr(pd, address, length, reinterpret_cast<std::uintptr_t>(address),
                  static_cast<unsigned>(access));
  });
}

VERBENA_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length,
                                       std::uint64_t iova, int access) {
  return create_or_null(
      [&] { return reg_mr(pd, address, length, iova, static_cast<unsigned>(access)); });
}

// ... and here otherwise.
VERBENA_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length,
                                        std::uint64_t iova, unsigned access) {
  return create_or_null([&] { return reg_mr(pd, address, length, iova, access); });
}

VERBENA_EXPORT int ibv_dereg_mr(ibv_mr* base) {
  auto& mr = MemoryRegion::of(base);
  if (mr.nic_mr != nullptr && !mr.owner().is_dead()) {
    if (const auto released = mr.release(); !released) {
      return errno_of(released);
    }
    mr.owner().untrack(mr.owner().mrs, mr);
  }
  delete &mr;
  return 0;
}

VERBENA_EXPORT int ibv_rereg_mr(ibv_mr*, int, ibv_pd*, void*, std::size_t, int) {
  errno = EOPNOTSUPP;
  return IBV_REREG_MR_ERR_INPUT;
}

VERBENA_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int,
                                         int) {
  return unsupported_object();
}

VERBENA_EXPORT ibv_mr* ibv_import_mr(ibv_pd*, std::uint32_t) { return unsupported_object(); }

VERBENA_EXPORT void ibv_unimport_mr(ibv_mr*) {}
