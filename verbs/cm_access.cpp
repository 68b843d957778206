#include "verbs/cm_access.h"

#include "ports/log.h"
#include "verbs/context.h"
#include "verbs/errors.h"

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ports::CmDevice* verbena_cm_device(ibv_context* base) {
  return create_or_null([&]() -> Created<ports::CmDevice> {
    Context& context = Context::of(base);
    auto service = context.shared_engine->connection_manager(context.opened.config);
    if (!service) {
      ports::report(service.error());
      return failed(EIO);
    }
    return *service;
  });
}
