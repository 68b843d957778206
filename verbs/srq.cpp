// Shared receive queues: creation, limits, queries. Posting is in post.cpp.

#include "verbs/srq.h"

#include <optional>

#include "verbs/cq.h"
#include "verbs/errors.h"
#include "verbs/real_verbs.h"
#include "verbs/xrcd.h"

namespace verbena::verbs {

SharedReceiveQueue::SharedReceiveQueue(Context& its_context, ibv_pd* its_pd, void* its_cookie)
    : ibv_srq{}, engine(its_context.engine()) {
  context = &its_context.context;
  pd = its_pd;
  srq_context = its_cookie;
  pthread_mutex_init(&mutex, nullptr);
  pthread_cond_init(&cond, nullptr);
}

SharedReceiveQueue::~SharedReceiveQueue() {
  pthread_cond_destroy(&cond);
  pthread_mutex_destroy(&mutex);
}

Result<void, nic::NicError> SharedReceiveQueue::release() {
  auto released = engine.with_nic([&](nic::Nic& nic, Time) { return nic.destroy_srq(*nic_srq); });
  if (released) {
    nic_srq = nullptr;
  }
  return released;
}

void SharedReceiveQueue::acknowledge_async_event() {
  pthread_mutex_lock(&mutex);
  ++events_completed;
  pthread_cond_signal(&cond);
  pthread_mutex_unlock(&mutex);
}

void SharedReceiveQueue::wait_for_acknowledgements() {
  const std::uint32_t events = owner().async.forget(&async_events_delivered);
  pthread_mutex_lock(&mutex);
  while (events_completed != events) {
    pthread_cond_wait(&cond, &mutex);
  }
  pthread_mutex_unlock(&mutex);
}

namespace {

/// What a queue for XRC targets has besides.
struct XrcPart {
  nic::Xrcd* xrcd = nullptr;
  nic::Cq* cq = nullptr;
};

/// `attr` comes back with what the queue can hold; its limit is not looked at (ibv_create_srq(3)).
Created<ibv_srq> create_srq(ibv_pd* base_pd, void* srq_context, ibv_srq_attr& attr,
                            const XrcPart& xrc = {}) {
  const auto& pd = ProtectionDomain::of(base_pd);
  Context& context = pd.owner();
  if (context.is_dead()) {
    return failed(EIO);
  }
  auto srq = create_in<SharedReceiveQueue>(base_pd, context, base_pd, srq_context);
  const auto created = context.engine().with_nic([&](nic::Nic& nic, Time) {
    return nic.create_srq(*pd.nic_pd, {.wr_max = attr.max_wr,
                                       .sge_max = attr.max_sge,
                                       .xrcd = xrc.xrcd,
                                       .cq = xrc.cq,
                                       .cookie = srq->cookie()});
  });
  if (!created) {
    return failed(errno_of(created));
  }
  srq->nic_srq = *created;
  const nic::SrqAttr told =
      context.engine().with_nic([&](nic::Nic& nic, Time) { return nic.query_srq(**created); });
  attr.max_wr = told.wr_max;
  attr.max_sge = told.sge_max;
  context.track(context.srqs, *srq);
  return srq.release();
}

constexpr std::uint32_t supported_init_attrs =
    IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;

Created<ibv_srq> create_extended(ibv_context* context, ibv_srq_init_attr_ex& attr) {
  const auto has = [&](std::uint32_t bit) { return (attr.comp_mask & bit) != 0; };
  const ibv_srq_type type = has(IBV_SRQ_INIT_ATTR_TYPE) ? attr.srq_type : IBV_SRQT_BASIC;
  if ((type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC) ||
      (attr.comp_mask & ~supported_init_attrs) != 0) {
    return failed(EOPNOTSUPP);
  }
  if (!has(IBV_SRQ_INIT_ATTR_PD) || attr.pd->context != context) {
    return failed(EINVAL);
  }
  if (type == IBV_SRQT_BASIC) {
    return create_srq(attr.pd, attr.srq_context, attr.attr);
  }
  if (!has(IBV_SRQ_INIT_ATTR_XRCD) || !has(IBV_SRQ_INIT_ATTR_CQ) || attr.xrcd->context != context ||
      attr.cq->context != context) {
    return failed(EINVAL);
  }
  return create_srq(
      attr.pd, attr.srq_context, attr.attr,
      {.xrcd = XrcDomain::of(attr.xrcd).nic_xrcd, .cq = CompletionQueue::of(attr.cq).nic_cq});
}

}  // namespace

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr) noexcept {
  return create_or_null([&] { return create_extended(context, *attr); });
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  if (is_real(pd)) {
    return real_verbs().ibv_create_srq(pd, attr);
  }
  return create_or_null([&] { return verbs::create_srq(pd, attr->srq_context, attr->attr); });
}

VERBENA_EXPORT int ibv_modify_srq(ibv_srq* base, ibv_srq_attr* attr, int mask) {
  if (is_real(base)) {
    return real_verbs().ibv_modify_srq(base, attr, mask);
  }
  auto& srq = SharedReceiveQueue::of(base);
  if (srq.engine.is_dead()) {
    return EIO;
  }
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) {
    return EINVAL;
  }
  const auto given = [&](int bit, std::uint32_t value) {
    return (mask & bit) != 0 ? std::optional(value) : std::nullopt;
  };
  return errno_of(srq.engine.with_nic([&](nic::Nic& nic, Time) {
    return nic.modify_srq(*srq.nic_srq, given(IBV_SRQ_MAX_WR, attr->max_wr),
                          given(IBV_SRQ_LIMIT, attr->srq_limit));
  }));
}

VERBENA_EXPORT int ibv_query_srq(ibv_srq* base, ibv_srq_attr* attr) {
  if (is_real(base)) {
    return real_verbs().ibv_query_srq(base, attr);
  }
  auto& srq = SharedReceiveQueue::of(base);
  if (srq.engine.is_dead()) {
    return EIO;
  }
  const nic::SrqAttr told =
      srq.engine.with_nic([&](nic::Nic& nic, Time) { return nic.query_srq(*srq.nic_srq); });
  *attr = {.max_wr = told.wr_max, .max_sge = told.sge_max, .srq_limit = told.limit};
  return 0;
}

VERBENA_EXPORT int ibv_destroy_srq(ibv_srq* base) {
  if (is_real(base)) {
    return real_verbs().ibv_destroy_srq(base);
  }
  auto& srq = SharedReceiveQueue::of(base);
  if (srq.nic_srq != nullptr && !srq.engine.is_dead()) {
    if (const auto released = srq.release(); !released) {
      return errno_of(released);
    }
    srq.owner().untrack(srq.owner().srqs, srq);
    srq.wait_for_acknowledgements();
  }
  destroy_placed(&srq);
  return 0;
}
