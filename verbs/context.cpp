// Opening and closing a device, and the table of functions that programs call through the context.

#include "verbs/context.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "ports/log.h"
#include "verbs/ah.h"
#include "verbs/cq.h"
#include "verbs/device_memory.h"
#include "verbs/errors.h"
#include "verbs/mr.h"
#include "verbs/mw.h"
#include "verbs/pd.h"
#include "verbs/qp.h"
#include "verbs/real_verbs.h"
#include "verbs/srq.h"
#include "verbs/xrcd.h"

namespace verbena::verbs {
namespace {

/// One per context: there is one engine thread, whatever the vector.
constexpr int comp_vectors = 1;

/// Programs call these without looking for NULL, so all eight are there. The _compat_ slots are
/// called by nothing but libraries linked before 2008, but for the two that rdma-core fills.
ibv_context_ops context_ops() {
  ibv_context_ops ops{};
  ops._compat_query_device = ibv_query_device;
  ops._compat_query_port = ibv_query_port;
  ops.alloc_mw = alloc_mw;
  ops.bind_mw = bind_mw;
  ops.dealloc_mw = dealloc_mw;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.post_srq_recv = post_srq_recv;
  ops.post_send = post_send;
  ops.post_recv = post_recv;
  return ops;
}

/// A descriptor of its own for each context, which pyverbs and others dup(). Nothing reads it.
int open_command_fd() {
  return static_cast<int>(::syscall(SYS_memfd_create, "verbena", MFD_CLOEXEC));
}

}  // namespace

/// In verbs_context a NULL function means "not supported", and inline functions say so to the
/// program; so only what is built is set.
Context::Context(Device& opened_device, std::shared_ptr<SharedEngine> engine, int command_fd)
    : verbs_context{}, opened(opened_device), shared_engine(std::move(engine)) {
  verbs_context::query_port = verbs::query_port;
  verbs_context::query_device_ex = verbs::query_device_ex;
  verbs_context::query_rt_values = verbs::query_rt_values;
  verbs_context::alloc_td = verbs::alloc_td;
  verbs_context::dealloc_td = verbs::dealloc_td;
  verbs_context::alloc_parent_domain = verbs::alloc_parent_domain;
  verbs_context::advise_mr = verbs::advise_mr;
  verbs_context::alloc_null_mr = verbs::alloc_null_mr;
  verbs_context::alloc_dm = verbs::alloc_dm;
  verbs_context::free_dm = verbs::free_dm;
  verbs_context::reg_dm_mr = verbs::reg_dm_mr;
  verbs_context::modify_cq = verbs::modify_cq;
  verbs_context::open_xrcd = verbs::open_xrcd;
  verbs_context::close_xrcd = verbs::close_xrcd;
  verbs_context::get_srq_num = verbs::get_srq_num;
  verbs_context::create_srq_ex = verbs::create_srq_ex;
  verbs_context::create_cq_ex = verbs::create_cq_ex;
  verbs_context::modify_qp_rate_limit = verbs::modify_qp_rate_limit;
  verbs_context::create_qp_ex = verbs::create_qp_ex;
  sz = sizeof(verbs_context);
  context.device = &opened.device;
  context.ops = context_ops();
  context.cmd_fd = command_fd;
  context.async_fd = async.fd();
  context.num_comp_vectors = comp_vectors;
  pthread_mutex_init(&context.mutex, nullptr);
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
}

Context::~Context() { ::syscall(SYS_close, context.cmd_fd); }

void Context::release_objects() {
  const std::lock_guard guard(objects_mutex);
  // Users before what they use.
  const auto release_all = [&]<class Object>(ObjectList& list) {
    for (ObjectLink& link : list) {
      static_cast<Object&>(link).release();
    }
    list.clear();
  };
  for (ObjectLink& link : qps) {
    static_cast<QueuePair&>(link).leave_groups();
  }
  release_all.operator()<QueuePair>(qps);
  release_all.operator()<AddressHandleObject>(ahs);
  release_all.operator()<SharedReceiveQueue>(srqs);
  release_all.operator()<XrcDomain>(xrcds);
  release_all.operator()<CompletionQueue>(cqs);
  release_all.operator()<MemoryWindow>(mws);
  release_all.operator()<MemoryRegion>(mrs);
  release_all.operator()<DeviceMemory>(dms);
  release_all.operator()<ProtectionDomain>(pds);
  release_all.operator()<ThreadDomain>(tds);
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

namespace {

/// A context of `device`. It owns the descriptor, unless it fails.
Created<ibv_context> open_context(Device& device, int command_fd) {
  auto engine = device.shared_engine();
  if (!engine) {
    ports::report(engine.error(), ports::LogLevel::error);
    return failed(EIO);
  }
  auto context = std::make_unique<Context>(device, *engine, command_fd);
  if (context->async.fd() < 0) {
    context->context.cmd_fd = -1;
    return failed(EMFILE);
  }
  (*engine)->attach(*context);
  return &context.release()->context;
}

/// Two descriptors of one open file, as dup() makes them.
bool are_same_file(int a, int b) {
  struct stat of_a{};
  struct stat of_b{};
  return ::fstat(a, &of_a) == 0 && ::fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

}  // namespace

VERBENA_EXPORT ibv_context* ibv_open_device(ibv_device* base) {
  if (is_real(base)) {
    return real_verbs().ibv_open_device(base);
  }
  return create_or_null([&]() -> Created<ibv_context> {
    const int command_fd = open_command_fd();
    if (command_fd < 0) {
      return failed(errno);
    }
    const auto context = open_context(Device::of(base), command_fd);
    if (!context) {
      ::syscall(SYS_close, command_fd);
    }
    return context;
  });
}

/// The new context owns the descriptor. One of ours must come from a context of this process: our
/// NIC is a part of its process, and can't be shared with another.
VERBENA_EXPORT ibv_context* ibv_import_device(int command_fd) {
  return create_or_null([&]() -> Created<ibv_context> {
    Device* const device = find_device([&](Device& candidate) {
      return std::ranges::any_of(candidate.open_contexts(), [&](Context* context) {
        return are_same_file(context->context.cmd_fd, command_fd);
      });
    });
    if (device == nullptr && has_real_verbs()) {
      ibv_context* const real = real_verbs().ibv_import_device(command_fd);
      return real == nullptr ? Created<ibv_context>(failed(errno)) : real;
    }
    if (device == nullptr) {
      return failed(EINVAL);
    }
    return open_context(*device, command_fd);
  });
}

VERBENA_EXPORT int ibv_close_device(ibv_context* base) {
  if (is_real(base)) {
    return real_verbs().ibv_close_device(base);
  }
  Context& context = Context::of(base);
  if (context.is_dead()) {
    return 0;  // Its objects still refer to it; it goes with the process.
  }
  context.shared_engine->detach(context);
  context.release_objects();
  delete &context;
  return 0;
}
