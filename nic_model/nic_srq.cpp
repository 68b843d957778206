// Shared receive queues, and the XRC domains that number them.

#include <algorithm>

#include "nic_model/nic_impl.h"
#include "nic_model/owned.h"
#include "nic_model/srq.h"
#include "nic_model/xrcd.h"

namespace verbena::nic {

Result<Srq*, NicError> Nic::create_srq(Pd& pd, const SrqInitAttr& attr) {
  const DeviceProfile& limits = impl_->profile;
  if (limits.srq_max == 0) {
    return std::unexpected(NicError::unsupported);
  }
  if (attr.wr_max == 0 || attr.wr_max > limits.srq_wr_max || attr.sge_max > limits.srq_sge_max ||
      attr.limit > attr.wr_max || (attr.xrcd == nullptr) != (attr.cq == nullptr)) {
    return std::unexpected(NicError::invalid_argument);
  }
  if (impl_->srqs.size() >= limits.srq_max) {
    return std::unexpected(NicError::limit_reached);
  }
  impl_->srqs.push_back(std::make_unique<Srq>(pd, attr));
  Srq& srq = *impl_->srqs.back();
  srq.queue.set_limit(attr.limit);
  ++pd.users;
  if (srq.xrcd != nullptr) {
    srq.number = Srqn{impl_->next_srqn++ & qpn_mask};
    srq.xrcd->srqs.emplace(to_value(srq.number), &srq);
    ++srq.cq->users;
  }
  return &srq;
}

Result<void, NicError> Nic::modify_srq(Srq& srq, std::optional<std::uint32_t> wr_max,
                                       std::optional<std::uint32_t> limit) {
  const std::uint32_t wr_max_then = wr_max.value_or(srq.queue.wr_max());
  if (wr_max_then == 0 || wr_max_then > impl_->profile.srq_wr_max ||
      limit.value_or(srq.queue.limit()) > wr_max_then || (wr_max && !srq.queue.resize(*wr_max))) {
    return std::unexpected(NicError::invalid_argument);
  }
  if (limit) {
    srq.queue.set_limit(*limit);
  }
  return {};
}

SrqAttr Nic::query_srq(const Srq& srq) const {
  return {.wr_max = srq.queue.wr_max(), .sge_max = srq.queue.sge_max(), .limit = srq.queue.limit()};
}

Result<void, NicError> Nic::destroy_srq(Srq& srq) {
  if (srq.users > 0) {
    return std::unexpected(NicError::busy);
  }
  if (srq.xrcd != nullptr) {
    impl_->release_held_requests(srq);
  }
  --srq.pd.users;
  if (srq.xrcd != nullptr) {
    srq.xrcd->srqs.erase(to_value(srq.number));
    --srq.cq->users;
  }
  std::erase_if(impl_->events, [&](const AsyncEvent& event) { return event.srq == &srq; });
  erase_owned(impl_->srqs, srq);
  return {};
}

Result<void, PostError> Nic::post_srq_recv(Srq& srq, const RecvWr& wr) {
  return srq.queue.push(wr);
}

Result<Xrcd*, NicError> Nic::alloc_xrcd() {
  if (!impl_->profile.has_xrc) {
    return std::unexpected(NicError::unsupported);
  }
  const auto pd = alloc_pd();
  if (!pd) {
    return std::unexpected(pd.error());
  }
  const auto cq = create_cq(1, 0);
  if (!cq) {
    static_cast<void>(dealloc_pd(**pd));
    return std::unexpected(cq.error());
  }
  impl_->xrcds.push_back(std::make_unique<Xrcd>(**pd, **cq));
  return impl_->xrcds.back().get();
}

Result<void, NicError> Nic::dealloc_xrcd(Xrcd& xrcd) {
  if (!xrcd.srqs.empty() || xrcd.pd.users > 0) {
    return std::unexpected(NicError::busy);
  }
  Pd& pd = xrcd.pd;
  Cq& cq = xrcd.cq;
  erase_owned(impl_->xrcds, xrcd);
  static_cast<void>(destroy_cq(cq));
  static_cast<void>(dealloc_pd(pd));
  return {};
}

/// No target goes on with a message for a queue that is about to go.
void Nic::Impl::release_held_requests(Srq& srq) {
  qps.for_each([&](Qp& qp) {
    if (qp.type == QpType::xrc_target) {
      std::get<RcHalves>(qp.transport).responder.forget_queue(srq.queue);
    }
  });
}

/// Tells that few requests are left, if that was asked for.
void Nic::Impl::check_limit(Srq& srq) {
  if (srq.queue.take_limit_reached()) {
    raise({.type = AsyncEventType::srq_limit_reached, .srq = &srq});
  }
}

Srqn number_of(const Srq& srq) { return srq.number; }
Pd& pd_of(Xrcd& xrcd) { return xrcd.pd; }
std::uintptr_t cookie_of(const Srq& srq) { return srq.cookie; }

}  // namespace verbena::nic
