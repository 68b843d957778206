// Failures on demand: each is what the event says, not only the event. A queue pair with an error
// is in the error state, a port that is down carries nothing.

#include <algorithm>

#include "nic_model/nic_impl.h"
#include "nic_model/xrcd.h"

namespace verbena::nic {

namespace {

/// Events after which a queue pair is in the error state (IBTA vol 1, 11.6.3). After a migration
/// that was refused it isn't (check_path() in nic_migration.cpp): it stays on its way.
bool ends_queue_pair(AsyncEventType type) {
  return type == AsyncEventType::qp_fatal || type == AsyncEventType::qp_req_err ||
         type == AsyncEventType::qp_access_err;
}

}  // namespace

void Nic::Impl::inject_at(Time now, AsyncEventType type, Qp& qp) {
  if (ends_queue_pair(type) && qp.attr.state != QpState::err && qp.attr.state != QpState::reset) {
    enter_error(now, qp);
  }
  raise({.type = type, .qp = &qp});
}

/// Of those that a program made.
std::uint32_t Nic::Impl::overflow_cqs(Time now) {
  std::uint32_t count = 0;
  const Qp* const gsi = qps.find(qpn_gsi);
  for (const auto& cq : cqs) {
    const bool is_of_xrcd = std::ranges::any_of(
        xrcds, [&](const std::unique_ptr<Xrcd>& xrcd) { return &xrcd->cq == cq.get(); });
    const bool is_of_gsi =
        gsi != nullptr && (&gsi->send_cq == cq.get() || &gsi->recv_cq == cq.get());
    if (!is_of_xrcd && !is_of_gsi) {
      cq->overflow();
      ++count;
    }
  }
  fail_users_of_overflowed_cqs(now);
  return count;
}

std::uint32_t Nic::inject(Time now, AsyncEventType type, std::optional<Qpn> qpn) {
  switch (type) {
    case AsyncEventType::port_err:
    case AsyncEventType::port_active:
      impl_->port_is_active = type == AsyncEventType::port_active;
      if (!impl_->port_is_active) {
        impl_->counters.add(Counter::link_downed);
      }
      impl_->raise({.type = type});
      return 1;
    case AsyncEventType::device_fatal:
      // IBTA vol 1, 11.6.3.3: nothing of the device works any more.
      impl_->port_is_active = false;
      impl_->qps.for_each([&](Qp& qp) {
        if (qp.attr.state != QpState::err && qp.attr.state != QpState::reset) {
          impl_->enter_error(now, qp);
        }
      });
      impl_->raise({.type = type});
      return 1;
    case AsyncEventType::gid_change:
      impl_->raise({.type = type});
      return 1;
    case AsyncEventType::cq_err:
      return impl_->overflow_cqs(now);
    case AsyncEventType::srq_limit_reached:
      for (const auto& srq : impl_->srqs) {
        srq->queue.set_limit(0);
        impl_->raise({.type = type, .srq = srq.get()});
      }
      return static_cast<std::uint32_t>(impl_->srqs.size());
    default:
      break;
  }
  std::uint32_t count = 0;
  impl_->qps.for_each([&](Qp& qp) {
    // QPN 1 belongs to the connection manager: a program doesn't hear of it.
    if (qp.type != QpType::gsi && (!qpn || qp.qpn == *qpn)) {
      impl_->inject_at(now, type, qp);
      ++count;
    }
  });
  return count;
}

bool Nic::is_port_active() const { return impl_->port_is_active; }

}  // namespace verbena::nic
