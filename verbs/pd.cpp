#include "verbs/pd.h"

#include "verbs/errors.h"

namespace verbena::verbs {

Result<void, nic::NicError> ProtectionDomain::release() {
  auto released =
      owner().engine().with_nic([&](nic::Nic& nic, Time) { return nic.dealloc_pd(*nic_pd); });
  if (released) {
    nic_pd = nullptr;
  }
  return released;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* base) {
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
  auto& pd = ProtectionDomain::of(base);
  if (pd.nic_pd != nullptr && !pd.owner().is_dead()) {
    if (const auto released = pd.release(); !released) {
      return errno_of(released);
    }
    pd.owner().untrack(pd.owner().pds, pd);
  }
  delete &pd;
  return 0;
}

VERBENA_EXPORT ibv_pd* ibv_import_pd(ibv_context*, std::uint32_t) { return unsupported_object(); }

VERBENA_EXPORT void ibv_unimport_pd(ibv_pd*) {}
