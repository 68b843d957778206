#include "verbs/shared_engine.h"

#include <algorithm>

#include "verbs/comp_channel.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/qp.h"
#include "verbs/srq.h"

namespace verbena::verbs {

// Both sides number the events alike; async.cpp passes the numbers on.
static_assert(static_cast<int>(nic::AsyncEventType::cq_err) == IBV_EVENT_CQ_ERR);
static_assert(static_cast<int>(nic::AsyncEventType::qp_access_err) == IBV_EVENT_QP_ACCESS_ERR);
static_assert(static_cast<int>(nic::AsyncEventType::sq_drained) == IBV_EVENT_SQ_DRAINED);
static_assert(static_cast<int>(nic::AsyncEventType::port_err) == IBV_EVENT_PORT_ERR);
static_assert(static_cast<int>(nic::AsyncEventType::srq_limit_reached) ==
              IBV_EVENT_SRQ_LIMIT_REACHED);
static_assert(static_cast<int>(nic::AsyncEventType::qp_last_wqe_reached) ==
              IBV_EVENT_QP_LAST_WQE_REACHED);
static_assert(static_cast<int>(nic::AsyncEventType::gid_change) == IBV_EVENT_GID_CHANGE);

Result<std::shared_ptr<SharedEngine>, std::string> SharedEngine::open(
    const ports::DeviceConfig& config) {
  std::shared_ptr<SharedEngine> shared(new SharedEngine);
  auto engine = ports::Engine::open(config, *shared);
  if (!engine) {
    return std::unexpected(std::move(engine.error()));
  }
  shared->engine_ = std::move(*engine);
  return shared;
}

SharedEngine::~SharedEngine() {
  if (engine_ && engine_->is_dead()) {
    // The child of a fork() has no engine thread to end, and its locks may be held by threads that
    // exist in the parent only: nothing may be touched, the memory goes with the process.
    static_cast<void>(cm_.release());
    static_cast<void>(iwarp_.release());
    static_cast<void>(engine_.release());
  }
  cm_to_wake_ = nullptr;
}

Result<ports::CmService*, std::string> SharedEngine::connection_manager(
    const ports::DeviceConfig& config) {
  const std::lock_guard guard(cm_mutex_);
  if (!cm_) {
    auto opened = ports::CmService::open(*engine_, config);
    if (!opened) {
      return std::unexpected(std::move(opened.error()));
    }
    cm_ = std::move(*opened);
    cm_to_wake_ = cm_.get();
    cm_->wake();  // What came before woke nobody.
  }
  return cm_.get();
}

Result<ports::IwarpService*, std::string> SharedEngine::iwarp_service(
    const ports::DeviceConfig& config) {
  const std::lock_guard guard(cm_mutex_);
  if (!iwarp_) {
    auto opened = ports::IwarpService::open(*engine_, config);
    if (!opened) {
      return std::unexpected(std::move(opened.error()));
    }
    iwarp_ = std::move(*opened);
  }
  return iwarp_.get();
}

void SharedEngine::attach(Context& context) {
  const std::lock_guard guard(contexts_mutex_);
  contexts_.push_back(&context);
}

void SharedEngine::detach(Context& context) noexcept {
  const std::lock_guard guard(contexts_mutex_);
  std::erase(contexts_, &context);
}

std::vector<Context*> SharedEngine::contexts() {
  const std::lock_guard guard(contexts_mutex_);
  return contexts_;
}

void SharedEngine::on_async_event(const nic::AsyncEvent& event) {
  const auto type = static_cast<ibv_event_type>(event.type);
  // QP1, its CQ and that of an XRC domain, which no program has made: there is nobody to tell.
  if ((event.qp != nullptr && nic::cookie_of(*event.qp) == 0) ||
      (event.cq != nullptr && event.cq->cookie() == 0)) {
    return;
  }
  if (event.qp != nullptr) {
    auto& qp = QueuePair::of_cookie(nic::cookie_of(*event.qp));
    qp.owner().async.push({.element = {.qp = &qp.qp_base}, .event_type = type},
                          &qp.async_events_delivered);
  } else if (event.cq != nullptr) {
    auto& cq = CompletionQueue::of_cookie(event.cq->cookie());
    cq.owner().async.push({.element = {.cq = cq.plain()}, .event_type = type},
                          &cq.async_events_delivered);
  } else if (event.srq != nullptr) {
    auto& srq = SharedReceiveQueue::of_cookie(nic::cookie_of(*event.srq));
    srq.owner().async.push({.element = {.srq = &srq}, .event_type = type},
                           &srq.async_events_delivered);
  } else {
    const std::lock_guard guard(contexts_mutex_);
    for (Context* context : contexts_) {
      context->async.push({.element = {.port_num = event.port}, .event_type = type}, nullptr);
    }
  }
}

void SharedEngine::on_cq_notification(nic::Cq& cq) {
  if (cq.cookie() == 0) {
    // QP1's, which no program has made.
    if (ports::CmService* cm = cm_to_wake_) {
      cm->wake();
    }
    return;
  }
  auto& queue = CompletionQueue::of_cookie(cq.cookie());
  if (queue.channel != nullptr) {
    CompChannel::of(queue.channel).push(queue);
  }
}

}  // namespace verbena::verbs
