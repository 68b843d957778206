// Completion queues. poll_cq() is on the data path: it reads the ring without the engine's lock.

#include "verbs/cq.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "verbs/errors.h"

namespace verbena::verbs {

CompletionQueue::CompletionQueue(Context& context_, ibv_comp_channel* channel_, void* cq_context_)
    : ibv_cq{}, engine(context_.engine()) {
  context = &context_.context;
  channel = channel_;
  cq_context = cq_context_;
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

static_assert(static_cast<int>(WcStatus::rnr_retry_exc_err) == IBV_WC_RNR_RETRY_EXC_ERR);
static_assert(static_cast<int>(WcStatus::loc_prot_err) == IBV_WC_LOC_PROT_ERR);
static_assert(static_cast<int>(WcStatus::mw_bind_err) == IBV_WC_MW_BIND_ERR);
static_assert(static_cast<int>(WcStatus::rem_access_err) == IBV_WC_REM_ACCESS_ERR);
static_assert(static_cast<int>(WcOpcode::local_inv) == IBV_WC_LOCAL_INV);
static_assert(static_cast<int>(WcOpcode::recv) == IBV_WC_RECV);
static_assert(static_cast<int>(WcOpcode::recv_rdma_with_imm) == IBV_WC_RECV_RDMA_WITH_IMM);

void translate(const Completion& from, ibv_wc& to) {
  to.wr_id = from.wr_id;
  to.status = static_cast<ibv_wc_status>(from.status);
  to.opcode = static_cast<ibv_wc_opcode>(from.opcode);
  to.vendor_err = 0;
  to.byte_len = from.byte_len;
  // Immediate data stays in wire order, an invalidated key is a number.
  if (from.with_inv) {
    to.invalidated_rkey = from.imm_or_rkey;
  } else {
    to.imm_data = htonl(from.imm_or_rkey);
  }
  to.qp_num = to_value(from.qpn);
  to.src_qp = to_value(from.src_qpn);
  to.wc_flags = (from.with_grh ? unsigned{IBV_WC_GRH} : 0U) |
                (from.with_imm ? unsigned{IBV_WC_WITH_IMM} : 0U) |
                (from.with_inv ? unsigned{IBV_WC_WITH_INV} : 0U);
  to.pkey_index = from.pkey_index;
  to.slid = 0;
  to.sl = from.sl;
  to.dlid_path_bits = 0;
}

/// Completions on their way from the ring to the program's array, a few at a time.
constexpr std::uint32_t batch_completions = 16;

std::uint32_t take(CompletionQueue& cq, std::span<ibv_wc> out) {
  std::array<Completion, batch_completions> batch;
  std::uint32_t taken = 0;
  const std::lock_guard guard(cq.poll_lock);
  while (taken < out.size()) {
    const std::size_t room = std::min<std::size_t>(out.size() - taken, batch.size());
    const std::uint32_t got = cq.nic_cq->poll(std::span(batch).first(room));
    for (std::uint32_t i = 0; i < got; ++i) {
      translate(batch[i], out[taken + i]);
    }
    taken += got;
    if (got < room) {
      break;
    }
  }
  return taken;
}

}  // namespace

int poll_cq(ibv_cq* base, int entries_max, ibv_wc* wc) noexcept {
  auto& cq = CompletionQueue::of(base);
  if (entries_max <= 0) {
    return 0;
  }
  const std::span out(wc, static_cast<std::size_t>(entries_max));
  if (!cq.nic_cq->empty()) {
    return static_cast<int>(take(cq, out));
  }
  // Nothing there: run the NIC instead of waiting for the thread that does.
  if (cq.engine.is_dead()) {
    return minus_one(EIO);
  }
  cq.engine.try_progress();
  return cq.nic_cq->empty() ? 0 : static_cast<int>(take(cq, out));
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

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_cq* ibv_create_cq(ibv_context* base, int cqe, void* cq_context,
                                     ibv_comp_channel* channel, int comp_vector) {
  return create_or_null([&]() -> Created<ibv_cq> {
    Context& context = Context::of(base);
    if (context.is_dead()) {
      return failed(EIO);
    }
    if (cqe < 1 || comp_vector < 0 || comp_vector >= base->num_comp_vectors) {
      return failed(EINVAL);
    }
    auto cq = std::make_unique<CompletionQueue>(context, channel, cq_context);
    const auto created = context.engine().with_nic([&](nic::Nic& nic, Time) {
      return nic.create_cq(static_cast<std::uint32_t>(cqe), cq->cookie());
    });
    if (!created) {
      return failed(errno_of(created));
    }
    cq->nic_cq = *created;
    cq->cqe = static_cast<int>((*created)->capacity());
    if (channel != nullptr) {
      CompChannel::of(channel).add_user();
    }
    context.track(context.cqs, *cq);
    return cq.release();
  });
}

VERBENA_EXPORT int ibv_destroy_cq(ibv_cq* base) {
  auto& cq = CompletionQueue::of(base);
  if (cq.nic_cq != nullptr && !cq.engine.is_dead()) {
    if (const auto released = cq.release(); !released) {
      return errno_of(released);
    }
    cq.owner().untrack(cq.owner().cqs, cq);
    cq.wait_for_acknowledgements();
    if (cq.channel != nullptr) {
      CompChannel::of(cq.channel).remove_user();
    }
  }
  delete &cq;
  return 0;
}

VERBENA_EXPORT int ibv_resize_cq(ibv_cq*, int) { return EOPNOTSUPP; }
