// Completion queues. poll_cq() is on the data path: it reads the ring without the engine's lock.

#include "verbs/cq.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "verbs/errors.h"
#include "verbs/real_verbs.h"

namespace verbena::verbs {

CompletionQueue::CompletionQueue(Context& its_context, ibv_comp_channel* its_channel,
                                 void* its_cookie)
    : ibv_cq_ex{}, engine(its_context.engine()) {
  context = &its_context.context;
  channel = its_channel;
  cq_context = its_cookie;
  pthread_mutex_init(&mutex, nullptr);
  pthread_cond_init(&cond, nullptr);
}

CompletionQueue::~CompletionQueue() {
  pthread_cond_destroy(&cond);
  pthread_mutex_destroy(&mutex);
}

Result<void, nic::NicError> CompletionQueue::release() {
  auto released = engine.with_nic([&](nic::Nic& nic, Time) { return nic.destroy_cq(*nic_cq); });
  if (released) {
    nic_cq = nullptr;
  }
  return released;
}

void CompletionQueue::acknowledge_events(std::uint32_t count) {
  pthread_mutex_lock(&mutex);
  comp_events_completed += count;
  pthread_cond_signal(&cond);
  pthread_mutex_unlock(&mutex);
}

void CompletionQueue::acknowledge_async_event() {
  pthread_mutex_lock(&mutex);
  ++async_events_completed;
  pthread_cond_signal(&cond);
  pthread_mutex_unlock(&mutex);
}

void CompletionQueue::wait_for_acknowledgements() {
  const std::uint32_t comp_events = channel == nullptr ? 0 : CompChannel::of(channel).forget(*this);
  const std::uint32_t async_events = owner().async.forget(&async_events_delivered);
  pthread_mutex_lock(&mutex);
  while (comp_events_completed != comp_events || async_events_completed != async_events) {
    pthread_cond_wait(&cond, &mutex);
  }
  pthread_mutex_unlock(&mutex);
}

namespace {

SpinLock* poll_lock_of(ibv_cq* cq) {
  return cq == nullptr ? nullptr : &CompletionQueue::of(cq).poll_lock;
}

}  // namespace

// In the order of their addresses, so that two threads with the same two queues can't block each
// other.
PollersHeld::PollersHeld(ibv_cq* one, ibv_cq* other)
    : first_(poll_lock_of(std::min(one, other))),
      second_(one == other ? nullptr : poll_lock_of(std::max(one, other))) {
  if (first_ != nullptr) {
    first_->lock();
  }
  if (second_ != nullptr) {
    second_->lock();
  }
}

PollersHeld::~PollersHeld() {
  if (second_ != nullptr) {
    second_->unlock();
  }
  if (first_ != nullptr) {
    first_->unlock();
  }
}

namespace {

static_assert(static_cast<int>(WcStatus::rnr_retry_exc_err) == IBV_WC_RNR_RETRY_EXC_ERR);
static_assert(static_cast<int>(WcStatus::loc_prot_err) == IBV_WC_LOC_PROT_ERR);
static_assert(static_cast<int>(WcStatus::mw_bind_err) == IBV_WC_MW_BIND_ERR);
static_assert(static_cast<int>(WcStatus::rem_access_err) == IBV_WC_REM_ACCESS_ERR);
static_assert(static_cast<int>(WcOpcode::local_inv) == IBV_WC_LOCAL_INV);
static_assert(static_cast<int>(WcOpcode::atomic_write) == IBV_WC_ATOMIC_WRITE);
static_assert(static_cast<int>(WcOpcode::recv) == IBV_WC_RECV);
static_assert(static_cast<int>(WcOpcode::recv_rdma_with_imm) == IBV_WC_RECV_RDMA_WITH_IMM);

void translate(const Completion& from, ibv_wc& to) {
  to.wr_id = from.wr_id;
  to.status = static_cast<ibv_wc_status>(from.status);
  to.opcode = static_cast<ibv_wc_opcode>(from.opcode);
  to.vendor_err = 0;
  to.byte_len = from.byte_len;
  to.imm_data = imm_or_rkey(from);  // One union for both.
  to.qp_num = to_value(from.qpn);
  to.src_qp = to_value(from.src_qpn);
  to.wc_flags = wc_flags(from);
  to.pkey_index = from.pkey_index;
  to.slid = 0;
  to.sl = service_level(from);
  to.dlid_path_bits = 0;
}

/// Completions on their way from the ring to the program's array, a few at a time.
constexpr std::size_t batch_completions = 16;

}  // namespace

std::uint8_t service_level(const Completion& completion) {
  constexpr unsigned over_udp = 1U << 3;
  const auto kind = static_cast<unsigned>(completion.network_header);
  if (!completion.with_grh) {
    return completion.sl;
  }
  return static_cast<std::uint8_t>(kind | (kind != 0 ? over_udp : 0U));
}

unsigned wc_flags(const Completion& completion) {
  return (completion.with_grh ? unsigned{IBV_WC_GRH} : 0U) |
         (completion.with_imm ? unsigned{IBV_WC_WITH_IMM} : 0U) |
         (completion.with_inv ? unsigned{IBV_WC_WITH_INV} : 0U);
}

std::uint32_t imm_or_rkey(const Completion& completion) {
  return completion.with_inv ? completion.imm_or_rkey : htonl(completion.imm_or_rkey);
}

int poll_cq(ibv_cq* base, int entries_max, ibv_wc* wc) noexcept {
  auto& cq = CompletionQueue::of(base);
  if (cq.nic_cq->empty()) {
    // Run the NIC instead of waiting for the thread that does.
    if (cq.engine.is_dead()) {
      return minus_one(EIO);
    }
    cq.engine.try_progress();
  }
  std::array<Completion, batch_completions> batch;
  int taken = 0;
  const std::lock_guard guard(cq.poll_lock);
  while (taken < entries_max && !cq.nic_cq->empty()) {
    const auto room = std::min(batch.size(), static_cast<std::size_t>(entries_max - taken));
    const std::uint32_t got = cq.nic_cq->poll(std::span(batch).first(room));
    for (std::uint32_t i = 0; i < got; ++i) {
      translate(batch[i], wc[taken++]);
    }
  }
  return taken;
}

Created<CompletionQueue> create_cq(Context& context, const CqInitAttr& attr) {
  if (context.is_dead()) {
    return failed(EIO);
  }
  if (attr.channel != nullptr && is_real(attr.channel)) {
    return failed(EINVAL);  // It couldn't be told of our completions.
  }
  if (attr.comp_vector >= static_cast<std::uint32_t>(context.context.num_comp_vectors)) {
    return failed(EINVAL);
  }
  auto cq = create_in<CompletionQueue>(attr.parent_domain, context, attr.channel, attr.cq_context);
  const auto created = context.engine().with_nic(
      [&](nic::Nic& nic, Time) { return nic.create_cq(attr.cqe, cq->cookie()); });
  if (!created) {
    return failed(errno_of(created));
  }
  cq->nic_cq = *created;
  cq->cqe = static_cast<int>((*created)->capacity());
  if (attr.channel != nullptr) {
    CompChannel::of(attr.channel).add_user();
  }
  context.track(context.cqs, *cq);
  return cq.release();
}

int req_notify_cq(ibv_cq* base, int solicited_only) noexcept {
  auto& cq = CompletionQueue::of(base);
  if (cq.engine.is_dead()) {
    return EIO;
  }
  cq.engine.with_nic(
      [&](nic::Nic& nic, Time) { nic.req_notify_cq(*cq.nic_cq, solicited_only != 0); });
  return 0;
}

int modify_cq(ibv_cq* base, ibv_modify_cq_attr* attr) noexcept {
  auto& cq = CompletionQueue::of(base);
  if (cq.engine.is_dead()) {
    return EIO;
  }
  if (attr->attr_mask != IBV_CQ_ATTR_MODERATE) {
    return EINVAL;
  }
  return errno_of(cq.engine.with_nic([&](nic::Nic& nic, Time) {
    return nic.moderate_cq(*cq.nic_cq, attr->moderate.cq_count,
                           std::chrono::microseconds(attr->moderate.cq_period));
  }));
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context,
                                     ibv_comp_channel* channel, int comp_vector) {
  if (is_real(context)) {
    return real_verbs().ibv_create_cq(context, cqe, cq_context, channel, comp_vector);
  }
  return create_or_null([&]() -> Created<ibv_cq> {
    if (cqe < 1 || comp_vector < 0) {
      return failed(EINVAL);
    }
    const auto cq =
        create_cq(Context::of(context), {.cqe = static_cast<std::uint32_t>(cqe),
                                         .cq_context = cq_context,
                                         .channel = channel,
                                         .comp_vector = static_cast<std::uint32_t>(comp_vector)});
    if (!cq) {
      return failed(cq.error());
    }
    return (*cq)->plain();
  });
}

VERBENA_EXPORT int ibv_destroy_cq(ibv_cq* base) {
  if (is_real(base)) {
    return real_verbs().ibv_destroy_cq(base);
  }
  auto& cq = CompletionQueue::of(base);
  const bool closed = cq.nic_cq == nullptr;
  const bool dead = !closed && cq.engine.is_dead();
  if (!closed && !dead) {
    if (const auto released = cq.release(); !released) {
      return errno_of(released);
    }
    cq.owner().untrack(cq.owner().cqs, cq);
    cq.wait_for_acknowledgements();
  }
  if (cq.channel != nullptr) {
    auto& channel = CompChannel::of(cq.channel);
    if (closed) {
      channel.forget(cq);
    }
    channel.remove_user();
  }
  destroy_placed(&cq);
  return 0;
}

VERBENA_EXPORT int ibv_resize_cq(ibv_cq* base, int cqe) {
  if (is_real(base)) {
    return real_verbs().ibv_resize_cq(base, cqe);
  }
  auto& cq = CompletionQueue::of(base);
  if (cq.engine.is_dead()) {
    return EIO;
  }
  if (cqe < 1) {
    return EINVAL;
  }
  const std::lock_guard guard(cq.poll_lock);
  const auto resized = cq.engine.with_nic([&](nic::Nic& nic, Time) {
    return nic.resize_cq(*cq.nic_cq, static_cast<std::uint32_t>(cqe));
  });
  if (resized) {
    cq.cqe = static_cast<int>(cq.nic_cq->capacity());
  }
  return errno_of(resized);
}
