#include "verbs/pd.h"

#include "verbs/errors.h"
#include "verbs/import.h"
#include "verbs/real_verbs.h"

namespace verbena::verbs {

Result<void, nic::NicError> ProtectionDomain::release() {
  auto released =
      owner().engine().with_nic([&](nic::Nic& nic, Time) -> Result<void, nic::NicError> {
        if (is_share) {
          --nic_pd->users;
          return {};
        }
        return nic.dealloc_pd(*nic_pd);
      });
  if (released) {
    nic_pd = nullptr;
  }
  return released;
}

void* ProtectionDomain::allocate(std::size_t bytes, std::size_t alignment, ResourceType type,
                                 bool& custom) {
  custom = false;
  if (allocators.alloc == nullptr) {
    return nullptr;
  }
  void* const memory = allocators.alloc(this, allocators.pd_context, bytes, alignment,
                                        static_cast<std::uint64_t>(type));
  // The program's way to say that it leaves this one to us.
  custom = memory != IBV_ALLOCATOR_USE_DEFAULT;
  allocations += custom && memory != nullptr ? 1 : 0;
  return memory;
}

void ProtectionDomain::free(void* memory, ResourceType type) {
  allocators.free(this, allocators.pd_context, memory, static_cast<std::uint64_t>(type));
  --allocations;
}

namespace {

constexpr std::uint32_t parent_domain_attrs =
    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

Created<ibv_pd> create_parent_domain(Context& context, const ibv_parent_domain_init_attr& attr) {
  if (context.is_dead()) {
    return failed(EIO);
  }
  const bool has_allocators = (attr.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
  if (attr.pd == nullptr || attr.pd->context != &context.context ||
      (attr.td != nullptr && attr.td->context != &context.context) ||
      (has_allocators && (attr.alloc == nullptr || attr.free == nullptr))) {
    return failed(EINVAL);
  }
  if ((attr.comp_mask & ~parent_domain_attrs) != 0) {
    return failed(EOPNOTSUPP);
  }
  auto pd = std::make_unique<ProtectionDomain>();
  pd->context = &context.context;
  pd->handle = attr.pd->handle;
  pd->nic_pd = ProtectionDomain::of(attr.pd).nic_pd;
  pd->is_share = true;
  if (has_allocators) {
    pd->allocators = attr;
    if ((attr.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) == 0) {
      pd->allocators.pd_context = nullptr;
    }
  }
  if (attr.td != nullptr) {
    pd->thread_domain = &ThreadDomain::of(attr.td);
    ++pd->thread_domain->users;
  }
  context.engine().with_nic([&](nic::Nic&, Time) { ++pd->nic_pd->users; });
  context.track(context.pds, *pd);
  return pd.release();
}

}  // namespace

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) noexcept {
  return create_or_null([&] { return create_parent_domain(Context::of(context), *attr); });
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) noexcept {
  return create_or_null([&]() -> Created<ibv_td> {
    if (attr->comp_mask != 0) {
      return failed(EOPNOTSUPP);
    }
    auto td = std::make_unique<ThreadDomain>();
    td->context = context;
    td->owner().track(td->owner().tds, *td);
    return td.release();
  });
}

int dealloc_td(ibv_td* base) noexcept {
  auto& td = ThreadDomain::of(base);
  if (td.context != nullptr && !td.owner().is_dead()) {
    if (td.users > 0) {
      return EBUSY;
    }
    td.owner().untrack(td.owner().tds, td);
  }
  delete &td;
  return 0;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* base) {
  if (is_real(base)) {
    return real_verbs().ibv_alloc_pd(base);
  }
  return create_or_null([&]() -> Created<ibv_pd> {
    Context& context = Context::of(base);
    if (context.is_dead()) {
      return failed(EIO);
    }
    auto pd = std::make_unique<ProtectionDomain>();
    const auto allocated =
        context.engine().with_nic([](nic::Nic& nic, Time) { return nic.alloc_pd(); });
    if (!allocated) {
      return failed(errno_of(allocated));
    }
    pd->context = base;
    pd->handle = to_value((*allocated)->id);
    pd->nic_pd = *allocated;
    context.track(context.pds, *pd);
    return pd.release();
  });
}

VERBENA_EXPORT int ibv_dealloc_pd(ibv_pd* base) {
  if (is_real(base)) {
    return real_verbs().ibv_dealloc_pd(base);
  }
  auto& pd = ProtectionDomain::of(base);
  if (pd.nic_pd != nullptr && !pd.owner().is_dead()) {
    if (pd.allocations > 0) {
      return EBUSY;
    }
    if (const auto released = pd.release(); !released) {
      return errno_of(released);
    }
    pd.owner().untrack(pd.owner().pds, pd);
    if (pd.thread_domain != nullptr) {
      --pd.thread_domain->users;
    }
  }
  delete &pd;
  return 0;
}

VERBENA_EXPORT ibv_pd* ibv_import_pd(ibv_context* base, std::uint32_t handle) {
  if (is_real(base)) {
    return real_verbs().ibv_import_pd(base, handle);
  }
  return create_or_null([&]() -> Created<ibv_pd> {
    Context& context = Context::of(base);
    if (context.is_dead()) {
      return failed(EIO);
    }
    const auto* const original =
        find_by_handle<ProtectionDomain>(*context.shared_engine, &Context::pds, handle);
    if (original == nullptr) {
      return failed(ENOENT);
    }
    auto pd = std::make_unique<ProtectionDomain>();
    pd->context = base;
    pd->handle = handle;
    pd->nic_pd = original->nic_pd;
    pd->is_share = true;
    context.engine().with_nic([&](nic::Nic&, Time) { ++pd->nic_pd->users; });
    context.track(context.pds, *pd);
    return pd.release();
  });
}

VERBENA_EXPORT void ibv_unimport_pd(ibv_pd* pd) {
  if (is_real(pd)) {
    real_verbs().ibv_unimport_pd(pd);
    return;
  }
  static_cast<void>(ibv_dealloc_pd(pd));
}
