// Automatic path migration: a connection knows a second way to its peer and goes over to it when
// the first one fails, or when the peer has gone before. Read first: IBTA vol 1, 17.2.8.
//
//                REARM, by the program       a packet with MigReq 0: the peer has rearmed, too
//     MIGRATED ─────────────────────► REARM ──────────────────────────────────────► ARMED
//        ▲                                                                            │
//        └──── MIGRATED by the program; no retries are left; the peer has migrated ───┘
//
// The peer is told by MigReq: 1 in MIGRATED, 0 in the other two. The two ways change their roles:
// the first becomes the alternate one, and the program may rearm with it or load another.

#include <utility>

#include "nic_model/nic_impl.h"
#include "proto/roce/sport.h"

namespace verbena::nic {

namespace {

namespace m = qp_attr_mask;

bool travelled(const roce::RoceFrame& frame, const FrameRoute& route,
               const roce::Encapsulation& encapsulation) {
  return frame.source == route.destination && frame.destination == route.source &&
         frame.version == encapsulation.path().version;
}

Way way_of(const Qp& qp, const AddressVector& av, const NicConfig& config) {
  Way way = make_way(config, av, roce::udp_source_port(qp.qpn, qp.attr.dest_qpn));
  way.route.destination_qpn = qp.attr.dest_qpn;
  return way;
}

void set_armed(Qp& qp, bool armed) {
  qp.attr.path_mig_state = armed ? PathMigState::armed : qp.attr.path_mig_state;
  if (auto* const rc = std::get_if<RcHalves>(&qp.transport)) {
    rc->requester.set_has_alternate_path(armed);
  }
}

}  // namespace

void set_path(Qp& qp, const NicConfig& config) {
  const Way way = way_of(qp, qp.attr.av, config);
  qp.encapsulation.emplace(way.encapsulation);
  qp.route = way.route;
}

void set_alternate_path(Qp& qp, const NicConfig& config) {
  qp.alternate = way_of(qp, qp.attr.alt_av, config);
}

bool path_attributes_are_valid(const NicConfig& config, const Qp& qp, const QpAttr& attr,
                               std::uint32_t mask) {
  // Five bits (IBTA vol 1, 9.7.6.1.3); the one partition is row 0.
  constexpr std::uint8_t timeout_max = 31;
  const bool loads = (mask & m::alt_path) != 0;
  if (loads && (attr.alt_port != 1 || attr.alt_pkey_index != 0 || attr.alt_timeout > timeout_max ||
                !address_is_valid(config, attr.alt_av))) {
    return false;
  }
  if ((mask & m::path_mig_state) == 0 || attr.path_mig_state == PathMigState::migrated) {
    return true;
  }
  // ARMED is what the Nic makes of REARM.
  return attr.path_mig_state == PathMigState::rearm && (loads || qp.alternate.has_value());
}

void Nic::Impl::set_path_mig_state(Qp& qp, PathMigState to) {
  qp.path_mig_err_told = false;
  if (to == PathMigState::migrated && qp.attr.path_mig_state == PathMigState::armed) {
    migrate(qp);
    return;
  }
  qp.attr.path_mig_state = to;
  set_armed(qp, false);
}

/// Whether the frame came by a way of the connection. What the peer says of its own state is heeded
/// here.
bool Nic::Impl::check_path(Qp& qp, const roce::RoceFrame& frame, bool peer_has_migrated) {
  const bool by_first = travelled(frame, qp.route, *qp.encapsulation);
  if (!qp.alternate) {
    return by_first;
  }
  const bool by_alternate = travelled(frame, qp.alternate->route, qp.alternate->encapsulation);
  if (qp.attr.path_mig_state == PathMigState::rearm && !peer_has_migrated) {
    set_armed(qp, by_first || by_alternate);
  }
  if (!by_alternate || !peer_has_migrated) {
    return by_first || by_alternate;
  }
  if (qp.attr.path_mig_state == PathMigState::armed) {
    migrate(qp);
    return true;
  }
  if (!by_first && !std::exchange(qp.path_mig_err_told, true)) {
    // The peer wants to go where we are not ready to follow.
    raise({.type = AsyncEventType::path_mig_err, .qp = &qp});
  }
  return by_first;
}

/// Goes over to the alternate way, whoever wanted it.
void Nic::Impl::migrate(Qp& qp) {
  std::swap(qp.attr.av, qp.attr.alt_av);
  std::swap(qp.attr.timeout, qp.attr.alt_timeout);
  qp.attr.path_mig_state = PathMigState::migrated;
  set_armed(qp, false);
  set_path(qp, config);
  set_alternate_path(qp, config);
  reconfigure(qp, config);
  raise({.type = AsyncEventType::path_mig, .qp = &qp});
}

/// A requester that has no retries left on the first way asks for the other one.
void Nic::Impl::migrate_if_asked(Qp& qp) {
  auto* const rc = std::get_if<RcHalves>(&qp.transport);
  if (rc != nullptr && rc->requester.take_path_exhausted()) {
    migrate(qp);
  }
}

}  // namespace verbena::nic
