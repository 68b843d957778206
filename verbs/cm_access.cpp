#include "verbs/cm_access.h"

#include "ports/log.h"
#include "verbs/context.h"
#include "verbs/errors.h"
#include "verbs/real_verbs.h"

using namespace verbena;
using namespace verbena::verbs;

namespace {

/// What `open` opens, which says why it can't.
template <class Service>
Created<Service> opened(Result<Service*, std::string> service) {
  if (!service) {
    ports::report(service.error());
    return failed(EIO);
  }
  return *service;
}

bool is_rnic(const Context& context) {
  return context.opened.config.technology == nic::Technology::iwarp;
}

}  // namespace

VERBENA_EXPORT bool verbena_is_ours(const ibv_device* device) { return !is_real(device); }

VERBENA_EXPORT ports::CmDevice* verbena_cm_device(ibv_context* base) {
  return create_or_null([&]() -> Created<ports::CmService> {
    Context& context = Context::of(base);
    return is_rnic(context)
               ? failed(EOPNOTSUPP)
               : opened(context.shared_engine->connection_manager(context.opened.config));
  });
}

VERBENA_EXPORT ports::IwarpDevice* verbena_iwarp_device(ibv_context* base) {
  return create_or_null([&]() -> Created<ports::IwarpService> {
    Context& context = Context::of(base);
    return is_rnic(context) ? opened(context.shared_engine->iwarp_service(context.opened.config))
                            : failed(EOPNOTSUPP);
  });
}
