#include "verbs/mw.h"

#include <memory>

#include "verbs/pd.h"
#include "verbs/qp.h"

namespace verbena::verbs {

static_assert(static_cast<int>(nic::MwType::type_1) == IBV_MW_TYPE_1);
static_assert(static_cast<int>(nic::MwType::type_2) == IBV_MW_TYPE_2);

Result<void, nic::NicError> MemoryWindow::release() {
  auto released =
      owner().engine().with_nic([&](nic::Nic& nic, Time) { return nic.dealloc_mw(*nic_mw); });
  if (released) {
    nic_mw = nullptr;
  }
  return released;
}

namespace {

/// Local rights mean nothing for a window, but programs pass them and devices take them.
constexpr unsigned window_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                   IBV_ACCESS_ZERO_BASED;

/// The index is the NIC's, only the low eight bits are the program's (IBTA vol 1, 10.6.7.2.4).
constexpr std::uint32_t index_mask = 0xFFFF'FF00;

Result<WindowBinding, Errno> translate(std::uint32_t rkey, const ibv_mw_bind_info& info) {
  if ((info.mw_access_flags & ~window_access) != 0) {
    return failed(EINVAL);
  }
  return WindowBinding{.key = Rkey{rkey},
                       .region = Lkey{info.mr == nullptr ? 0 : info.mr->lkey},
                       .addr = Va{info.addr},
                       .length = info.length,
                       .access = Access{info.mw_access_flags}};
}

Created<ibv_mw> create_window(ibv_pd* base, ibv_mw_type type) {
  const auto& pd = ProtectionDomain::of(base);
  Context& context = pd.owner();
  if (context.is_dead()) {
    return failed(EIO);
  }
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
    return failed(EINVAL);
  }
  auto mw = std::make_unique<MemoryWindow>();
  const auto allocated = context.engine().with_nic([&](nic::Nic& nic, Time) {
    return nic.alloc_mw(*pd.nic_pd, static_cast<nic::MwType>(type));
  });
  if (!allocated) {
    return failed(errno_of(allocated));
  }
  mw->context = &context.context;
  mw->pd = base;
  mw->type = type;
  mw->rkey = to_value((*allocated)->rkey);
  mw->handle = mw->rkey & index_mask;
  mw->nic_mw = *allocated;
  context.track(context.mws, *mw);
  return mw.release();
}

}  // namespace

Result<WindowBinding, Errno> binding_of(const ibv_mw& mw, std::uint32_t rkey,
                                        const ibv_mw_bind_info& info) {
  if (mw.type != IBV_MW_TYPE_2 || ((mw.rkey ^ rkey) & index_mask) != 0 || info.mr == nullptr) {
    return failed(EINVAL);
  }
  return translate(rkey, info);
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) noexcept {
  return create_or_null([&] { return create_window(pd, type); });
}

/// Posts the binding of a window of type 1. Each has a key of its own, so that peers notice.
int bind_mw(ibv_qp* base, ibv_mw* mw, ibv_mw_bind* bind) noexcept {
  auto& qp = QueuePair::of(base);
  if (qp.engine.is_dead()) {
    return EIO;
  }
  const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
  const auto binding = translate(rkey, bind->bind_info);
  if (!binding) {
    return binding.error();
  }
  const auto posted = qp.engine.with_nic([&](nic::Nic& nic, Time now) {
    return nic.post_send(now, *qp.nic_qp,
                         {.wr_id = bind->wr_id,
                          .opcode = WrOpcode::bind_mw,
                          .signaled = (bind->send_flags & IBV_SEND_SIGNALED) != 0,
                          .fence = (bind->send_flags & IBV_SEND_FENCE) != 0,
                          .sges = {},
                          .binding = *binding});
  });
  if (posted) {
    mw->rkey = rkey;
  }
  return errno_of(posted);
}

int dealloc_mw(ibv_mw* base) noexcept {
  auto& mw = MemoryWindow::of(base);
  if (mw.nic_mw != nullptr && !mw.owner().is_dead()) {
    if (const auto released = mw.release(); !released) {
      return errno_of(released);
    }
    mw.owner().untrack(mw.owner().mws, mw);
  }
  delete &mw;
  return 0;
}

}  // namespace verbena::verbs
