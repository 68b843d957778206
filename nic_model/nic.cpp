#include "nic_model/nic.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "nic_model/nic_impl.h"
#include "nic_model/owned.h"

namespace verbena::nic {

Nic::Nic(const DeviceProfile& profile, NicConfig config, std::uint64_t seed)
    : impl_(std::make_unique<Impl>(profile, std::move(config), seed)) {}

Nic::~Nic() = default;

const DeviceProfile& Nic::profile() const { return impl_->profile; }
const NicConfig& Nic::config() const { return impl_->config; }
const Counters& Nic::counters() const { return impl_->counters; }

Nic::ObjectCounts Nic::object_counts() const {
  return {.pds = static_cast<std::uint32_t>(impl_->pds.size()),
          .mrs = impl_->memory.regions(),
          .mws = impl_->memory.windows(),
          .cqs = static_cast<std::uint32_t>(impl_->cqs.size()),
          .srqs = static_cast<std::uint32_t>(impl_->srqs.size()),
          .qps = impl_->qps.count(),
          .ahs = static_cast<std::uint32_t>(impl_->ahs.size())};
}

std::size_t Nic::list_qps(std::span<const Qp*> room) const {
  std::size_t count = 0;
  impl_->qps.for_each([&](const Qp& qp) {
    if (count < room.size()) {
      room[count++] = &qp;
    }
  });
  return count;
}

void Nic::set_observer(NicObserver* observer) { impl_->observer = observer; }

Result<Pd*, NicError> Nic::alloc_pd() {
  if (impl_->pds.size() >= impl_->profile.pd_max) {
    return std::unexpected(NicError::limit_reached);
  }
  return impl_->pds.emplace_back(std::make_unique<Pd>(Pd{.id = PdId{impl_->next_pd++}})).get();
}

Result<void, NicError> Nic::dealloc_pd(Pd& pd) {
  if (pd.users > 0) {
    return std::unexpected(NicError::busy);
  }
  erase_owned(impl_->pds, pd);
  return {};
}

Result<Cq*, NicError> Nic::create_cq(std::uint32_t cqe, std::uintptr_t cookie) {
  if (cqe == 0 || cqe > impl_->profile.cqe_max) {
    return std::unexpected(NicError::invalid_argument);
  }
  auto& cqs = impl_->cqs;
  if (cqs.size() >= impl_->profile.cq_max) {
    return std::unexpected(NicError::limit_reached);
  }
  cqs.push_back(std::make_unique<Cq>(cqe, cookie, impl_->counters, impl_->cq_signals));
  // So that signalling, which happens on the data path, never allocates.
  impl_->cq_signals.notified.reserve(cqs.capacity());
  impl_->cq_signals.delayed.reserve(cqs.capacity());
  impl_->cq_signals.overflowed.reserve(cqs.capacity());
  return cqs.back().get();
}

Result<void, NicError> Nic::resize_cq(Cq& cq, std::uint32_t cqe) {
  if (cqe == 0 || cqe > impl_->profile.cqe_max || !cq.resize(cqe)) {
    return std::unexpected(NicError::invalid_argument);
  }
  return {};
}

Result<void, NicError> Nic::destroy_cq(Cq& cq) {
  if (cq.users > 0) {
    return std::unexpected(NicError::busy);
  }
  std::erase(impl_->cq_signals.notified, &cq);
  std::erase(impl_->cq_signals.delayed, &cq);
  std::erase(impl_->cq_signals.overflowed, &cq);
  std::erase_if(impl_->events, [&](const AsyncEvent& event) { return event.cq == &cq; });
  erase_owned(impl_->cqs, cq);
  return {};
}

Result<void, NicError> Nic::moderate_cq(Cq& cq, std::uint32_t count, Duration period) {
  if (impl_->profile.cq_moderation_count_max == 0) {
    return std::unexpected(NicError::unsupported);
  }
  if (count > impl_->profile.cq_moderation_count_max || period < Duration::zero() ||
      period > impl_->profile.cq_moderation_period_max) {
    return std::unexpected(NicError::invalid_argument);
  }
  cq.moderate(count, period);
  return {};
}

void Nic::req_notify_cq(Cq& cq, bool solicited_only) { cq.arm(solicited_only); }

void Nic::Impl::raise(const AsyncEvent& event) {
  if (events.size() >= async_events_max) {
    counters.add(Counter::async_event_overflow);
    return;
  }
  events.push_back(event);
}

std::optional<AsyncEvent> Nic::poll_event() {
  if (impl_->events.empty()) {
    return std::nullopt;
  }
  const AsyncEvent event = impl_->events.front();
  impl_->events.pop_front();
  return event;
}

Cq* Nic::poll_cq_notification() {
  auto& notified = impl_->cq_signals.notified;
  if (notified.empty()) {
    return nullptr;
  }
  Cq* const cq = notified.front();
  notified.erase(notified.begin());
  return cq;
}

void Nic::on_timer(Time now, FrameSink* way) {
  while (Qp* const qp = impl_->timers.pop_due(now)) {
    auto env = impl_->env(now, *qp);
    // Of the others' timers only the pacer is left: it is asked again when they transmit.
    if (auto* const rc = std::get_if<RcHalves>(&qp->transport)) {
      if (way != nullptr && rc->requester.is_ack_overdue(now) && way->is_unread(qp->route)) {
        rc->requester.renew_ack_timer(env);
      }
      impl_->fail(env, *qp, rc->requester.on_timer(env));
      impl_->migrate_if_asked(*qp);
    }
    impl_->update_timer(*qp);
    impl_->mark_ready(*qp);
  }
  const auto due = [now](const Cq* cq) { return cq->notify_at() <= now; };
  auto& delayed = impl_->cq_signals.delayed;
  for (auto at = std::ranges::find_if(delayed, due); at != delayed.end();
       at = std::ranges::find_if(delayed, due)) {
    (*at)->notify_now();  // Takes it out of the list.
  }
}

Time Nic::next_timeout() const {
  Time next = impl_->timers.next();
  for (const Cq* const cq : impl_->cq_signals.delayed) {
    next = std::min(next, cq->notify_at());
  }
  return next;
}

Qpn qpn_of(const Qp& qp) { return qp.qpn; }
QpState state_of(const Qp& qp) { return qp.attr.state; }
QpType type_of(const Qp& qp) { return qp.type; }
const QpCaps& qp_caps(const Qp& qp) { return qp.caps; }
std::uintptr_t cookie_of(const Qp& qp) { return qp.cookie; }
const Counters& counters_of(const Qp& qp) { return qp.counters; }
std::size_t send_room(const Qp& qp) { return room_to_send(qp); }

}  // namespace verbena::nic
