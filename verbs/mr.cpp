#include "verbs/mr.h"

#include <optional>
#include <span>

#include "ports/populate.h"
#include "proto/memory_access.h"
#include "verbs/device_memory.h"
#include "verbs/errors.h"
#include "verbs/import.h"
#include "verbs/pd.h"
#include "verbs/real_verbs.h"

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
  return Access{bits & known};
}

/// As the kernel decides it: these rights let the NIC write to the pages.
bool needs_writable(Access access) {
  const Access writing =
      Access::local_write | Access::remote_write | Access::remote_atomic | Access::mw_bind;
  return (to_value(access) & to_value(writing)) != 0;
}

/// What the kernel finds out by pinning the pages. Demand-paged memory may come later.
Errno check_memory(void* address, std::size_t length, Access access) {
  if (!allows(access, Access::on_demand)) {
    return ports::populate(address, length, needs_writable(access));
  }
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  return length == 0 || first + length < first ? EINVAL : 0;
}

/// Wraps a region of the Nic's for the program.
Created<ibv_mr> adopt(ibv_pd* pd, void* address,
                      const Result<nic::Mr*, nic::NicError>& registered) {
  if (!registered) {
    return failed(errno_of(registered));
  }
  Context& context = ProtectionDomain::of(pd).owner();
  auto mr = std::make_unique<MemoryRegion>();
  mr->context = &context.context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = (*registered)->length;
  mr->handle = to_value((*registered)->lkey);
  mr->lkey = to_value((*registered)->lkey);
  mr->rkey = (*registered)->is_null ? 0 : to_value((*registered)->rkey);
  mr->nic_mr = *registered;
  context.track(context.mrs, *mr);
  return mr.release();
}

/// An implicit region (address NULL, length SIZE_MAX, on demand) is the whole address space.
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
  if (const Errno error = check_memory(address, length, *access)) {
    return failed(error);
  }
  const Va first{allows(*access, Access::zero_based) ? 0 : iova};
  return adopt(base_pd, address, context.engine().with_nic([&](nic::Nic& nic, Time) {
    return nic.reg_mr(*pd.nic_pd, static_cast<std::byte*>(address), length, first, *access);
  }));
}

/// The outcome of ibv_rereg_mr(): 0, or a value of ibv_rereg_mr_err_code and errno.
int rereg_error(int code, Errno error) {
  errno = error;
  return code;
}

int rereg_mr(MemoryRegion& mr, unsigned flags, ibv_pd* pd, void* address, std::size_t length,
             unsigned access_bits) {
  const auto changes = [flags](unsigned what) { return (flags & what) != 0; };
  const bool moves = changes(IBV_REREG_MR_CHANGE_TRANSLATION);
  if (flags == 0 || (flags & ~unsigned{IBV_REREG_MR_FLAGS_SUPPORTED}) != 0 ||
      (moves && (address == nullptr || length == 0)) ||
      (changes(IBV_REREG_MR_CHANGE_PD) && (pd == nullptr || pd->context != mr.context))) {
    return rereg_error(IBV_REREG_MR_ERR_INPUT, EINVAL);
  }
  nic::MrChange change;
  if (changes(IBV_REREG_MR_CHANGE_ACCESS)) {
    const auto access = checked_access(access_bits);
    if (!access) {
      return rereg_error(IBV_REREG_MR_ERR_INPUT, access.error());
    }
    change.access = *access;
  }
  if (moves) {
    change.translation = {.host = static_cast<std::byte*>(address),
                          .length = length,
                          .iova = Va{reinterpret_cast<std::uintptr_t>(address)}};
  }
  if (changes(IBV_REREG_MR_CHANGE_PD)) {
    change.pd = ProtectionDomain::of(pd).nic_pd;
  }
  const Access access = change.access.value_or(mr.nic_mr->access);
  if (const Errno error =
          check_memory(moves ? address : mr.addr, moves ? length : mr.length, access)) {
    return rereg_error(IBV_REREG_MR_ERR_CMD, error);
  }
  const auto done = mr.owner().engine().with_nic(
      [&](nic::Nic& nic, Time) { return nic.rereg_mr(*mr.nic_mr, change); });
  if (!done) {
    return rereg_error(IBV_REREG_MR_ERR_CMD, errno_of(done));
  }
  if (moves) {
    mr.addr = address;
    mr.length = length;
  }
  if (change.pd != nullptr) {
    mr.pd = pd;
  }
  return 0;
}

/// As the kernel answers a prefetch of what it may not touch.
Errno errno_of_fault(AccessFault fault) {
  switch (fault) {
    case AccessFault::unknown_key:
      return ENOENT;
    case AccessFault::wrong_pd:
    case AccessFault::not_permitted:
      return EPERM;
    default:
      return EFAULT;
  }
}

}  // namespace

ibv_mr* alloc_null_mr(ibv_pd* base) noexcept {
  return create_or_null([&]() -> Created<ibv_mr> {
    const auto& pd = ProtectionDomain::of(base);
    if (pd.owner().is_dead()) {
      return failed(EIO);
    }
    return adopt(base, nullptr, pd.owner().engine().with_nic([&](nic::Nic& nic, Time) {
      return nic.alloc_null_mr(*pd.nic_pd);
    }));
  });
}

ibv_mr* reg_dm_mr(ibv_pd* base, ibv_dm* dm, std::uint64_t offset, std::size_t length,
                  unsigned access_bits) noexcept {
  return create_or_null([&]() -> Created<ibv_mr> {
    const auto& pd = ProtectionDomain::of(base);
    const auto access = checked_access(access_bits);
    if (pd.owner().is_dead() || DeviceMemory::of(dm).nic_dm == nullptr) {
      return failed(EIO);
    }
    if (!access) {
      return failed(access.error());
    }
    return adopt(base, nullptr, pd.owner().engine().with_nic([&](nic::Nic& nic, Time) {
      return nic.reg_dm_mr(*pd.nic_pd, *DeviceMemory::of(dm).nic_dm, offset, length, *access);
    }));
  });
}

/// Without IBV_ADVISE_MR_FLAG_FLUSH it is mere advice, whose outcome nobody waits for.
int advise_mr(ibv_pd* base, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* sges,
              std::uint32_t count) noexcept {
  const auto& pd = ProtectionDomain::of(base);
  if (pd.owner().is_dead()) {
    return EIO;
  }
  if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT ||
      (flags & ~std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0) {
    return EOPNOTSUPP;
  }
  const bool for_writing = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  const Access needed = Access::on_demand | (for_writing ? Access::local_write : Access::none);
  for (const ibv_sge& sge : std::span(sges, count)) {
    const auto start = pd.owner().engine().with_nic([&](nic::Nic& nic, Time) {
      return nic.address_of(
          *pd.nic_pd, {.addr = Va{sge.addr}, .length = sge.length, .lkey = Lkey{sge.lkey}}, needed);
    });
    if (!start) {
      return errno_of_fault(start.error());
    }
    // Pages that are there already need nothing: there is no second page table to fill.
    if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || sge.length == 0) {
      continue;
    }
    const Errno error = ports::populate(*start, sge.length, for_writing);
    if (error != 0 && (flags & IBV_ADVISE_MR_FLAG_FLUSH) != 0) {
      return error;
    }
  }
  return 0;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

// Programs get here when their access flags are a constant without optional rights ...
VERBENA_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  if (is_real(pd)) {
    return real_verbs().ibv_reg_mr(pd, address, length, access);
  }
  return create_or_null([&] {
    return reg_mr(pd, address, length, reinterpret_cast<std::uintptr_t>(address),
                  static_cast<unsigned>(access));
  });
}

VERBENA_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length,
                                       std::uint64_t iova, int access) {
  if (is_real(pd)) {
    return real_verbs().ibv_reg_mr_iova(pd, address, length, iova, access);
  }
  return create_or_null(
      [&] { return reg_mr(pd, address, length, iova, static_cast<unsigned>(access)); });
}

// ... and here otherwise.
VERBENA_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length,
                                        std::uint64_t iova, unsigned access) {
  if (is_real(pd)) {
    return real_verbs().ibv_reg_mr_iova2(pd, address, length, iova, access);
  }
  return create_or_null([&] { return reg_mr(pd, address, length, iova, access); });
}

VERBENA_EXPORT int ibv_dereg_mr(ibv_mr* base) {
  if (is_real(base)) {
    return real_verbs().ibv_dereg_mr(base);
  }
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

VERBENA_EXPORT int ibv_rereg_mr(ibv_mr* base, int flags, ibv_pd* pd, void* address,
                                std::size_t length, int access) {
  if (is_real(base)) {
    return real_verbs().ibv_rereg_mr(base, flags, pd, address, length, access);
  }
  auto& mr = MemoryRegion::of(base);
  if (mr.owner().is_dead()) {
    errno = EIO;
    return IBV_REREG_MR_ERR_CMD;
  }
  return rereg_mr(mr, static_cast<unsigned>(flags), pd, address, length,
                  static_cast<unsigned>(access));
}

VERBENA_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length,
                                         std::uint64_t iova, int fd, int access) {
  if (is_real(pd)) {
    return real_verbs().ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access);
  }
  return unsupported_object();
}

/// What comes back has the keys and no address: they are good as long as the original lives.
VERBENA_EXPORT ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t handle) {
  if (is_real(pd)) {
    return real_verbs().ibv_import_mr(pd, handle);
  }
  return create_or_null([&]() -> Created<ibv_mr> {
    Context& context = ProtectionDomain::of(pd).owner();
    if (context.is_dead()) {
      return failed(EIO);
    }
    const auto* const original =
        find_by_handle<MemoryRegion>(*context.shared_engine, &Context::mrs, handle);
    if (original == nullptr ||
        ProtectionDomain::of(original->pd).nic_pd != ProtectionDomain::of(pd).nic_pd) {
      return failed(ENOENT);
    }
    auto mr = std::make_unique<MemoryRegion>();
    mr->context = &context.context;
    mr->pd = pd;
    mr->addr = nullptr;
    mr->length = original->length;
    mr->handle = handle;
    mr->lkey = original->lkey;
    mr->rkey = original->rkey;
    return mr.release();
  });
}

VERBENA_EXPORT void ibv_unimport_mr(ibv_mr* mr) {
  if (is_real(mr)) {
    real_verbs().ibv_unimport_mr(mr);
    return;
  }
  delete &MemoryRegion::of(mr);
}
