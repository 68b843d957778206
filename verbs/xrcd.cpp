#include "verbs/xrcd.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <memory>
#include <mutex>

#include "verbs/errors.h"
#include "verbs/srq.h"

namespace verbena::verbs {
namespace {

/// Under it, which domains there are doesn't change.
std::mutex& domains_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// The domain that other contexts have open under the same file.
nic::Xrcd* find_shared(Context& context, const XrcDomain& wanted) {
  for (Context* const other : context.shared_engine->contexts()) {
    const std::lock_guard guard(other->objects_mutex);
    for (ObjectLink& link : other->xrcds) {
      const auto& xrcd = static_cast<XrcDomain&>(link);
      if (&xrcd != &wanted && xrcd.is_named && xrcd.file_device == wanted.file_device &&
          xrcd.file_number == wanted.file_number) {
        return xrcd.nic_xrcd;
      }
    }
  }
  return nullptr;
}

Created<ibv_xrcd> open(Context& context, const ibv_xrcd_init_attr& attr) {
  constexpr std::uint32_t attrs = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (context.is_dead()) {
    return failed(EIO);
  }
  if ((attr.comp_mask & ~attrs) != 0 || (attr.comp_mask & attrs) != attrs ||
      (attr.oflags & ~(O_CREAT | O_EXCL)) != 0) {
    return failed(EINVAL);
  }
  auto xrcd = std::make_unique<XrcDomain>();
  xrcd->context = &context.context;
  nic::Xrcd* shared = nullptr;
  if (attr.fd != -1) {
    struct stat file{};
    if (::fstat(attr.fd, &file) != 0) {
      return failed(EBADF);
    }
    xrcd->is_named = true;
    xrcd->file_device = file.st_dev;
    xrcd->file_number = file.st_ino;
  }
  const std::lock_guard guard(domains_mutex());
  if (xrcd->is_named) {
    shared = find_shared(context, *xrcd);
  }
  // As the kernel answers: O_EXCL wants a new one, without O_CREAT there must be one.
  if (shared != nullptr ? (attr.oflags & O_EXCL) != 0 : (attr.oflags & O_CREAT) == 0) {
    return failed(shared != nullptr ? EINVAL : EAGAIN);
  }
  if (shared == nullptr) {
    const auto created =
        context.engine().with_nic([](nic::Nic& nic, Time) { return nic.alloc_xrcd(); });
    if (!created) {
      return failed(errno_of(created));
    }
    shared = *created;
  }
  xrcd->nic_xrcd = shared;
  context.track(context.xrcds, *xrcd);
  return xrcd.release();
}

}  // namespace

Result<void, nic::NicError> XrcDomain::release() {
  const std::lock_guard guard(domains_mutex());
  if (is_named && find_shared(owner(), *this) != nullptr) {
    nic_xrcd = nullptr;
    return {};
  }
  auto released =
      owner().engine().with_nic([&](nic::Nic& nic, Time) { return nic.dealloc_xrcd(*nic_xrcd); });
  if (released) {
    nic_xrcd = nullptr;
  }
  return released;
}

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr) noexcept {
  return create_or_null([&] { return open(Context::of(context), *attr); });
}

int close_xrcd(ibv_xrcd* base) noexcept {
  auto& xrcd = XrcDomain::of(base);
  if (xrcd.nic_xrcd != nullptr && !xrcd.owner().is_dead()) {
    if (const auto released = xrcd.release(); !released) {
      return errno_of(released);
    }
    xrcd.owner().untrack(xrcd.owner().xrcds, xrcd);
  }
  delete &xrcd;
  return 0;
}

int get_srq_num(ibv_srq* srq, std::uint32_t* number) noexcept {
  const Srqn told = nic::number_of(*SharedReceiveQueue::of(srq).nic_srq);
  if (told == Srqn{0}) {
    return EOPNOTSUPP;
  }
  *number = to_value(told);
  return 0;
}

}  // namespace verbena::verbs
