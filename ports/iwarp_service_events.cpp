// What sockets, deadlines and the engine tell, in the reactor's thread.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "ports/iwarp_service_impl.h"
#include "ports/sys.h"

namespace verbena::ports {

namespace {

using namespace std::chrono_literals;
using Kind = IwarpEvent::Kind;
using Phase = IwarpHandshake::Phase;
using End = IwarpHandshake::End;

/// Connections that a listening socket hands out before others have their turn.
constexpr int accepts_max = 16;
/// When the process has no descriptor left for a connection, it is tried again so soon.
constexpr Duration accept_retry_interval = 100ms;

/// What Linux makes of it (cma_iw_handler).
Kind kind_of(const IwarpHandshake& handshake) {
  switch (handshake.end()) {
    case End::rejected:
      return Kind::rejected;
    case End::timed_out:
      return Kind::unreachable;
    case End::connection:
      break;
    case End::disagreed:
    case End::none:
      return Kind::failed;
  }
  const int status = handshake.status();
  if (status == -ECONNREFUSED || status == -ECONNRESET) {
    return Kind::rejected;
  }
  const bool is_no_way = status == -ETIMEDOUT || status == -EHOSTUNREACH || status == -ENETUNREACH;
  return is_no_way ? Kind::unreachable : Kind::failed;
}

}  // namespace

void IwarpService::Impl::say(LogLevel level, std::string_view what) const {
  log(level, config_.name, std::nullopt, what);
}

std::uintptr_t IwarpService::Impl::tell(Kind kind, IwarpConnectionId id,
                                        const Connection& connection) {
  IwarpEvent event;
  event.kind = kind;
  event.id = id;
  event.cookie = connection.cookie;
  event.local = connection.local;
  event.remote = connection.remote;
  event.depths = connection.depths;
  if (const IwarpHandshake* const handshake = connection.handshake.get()) {
    event.local = handshake->local();
    event.remote = handshake->remote();
    event.status = handshake->status();
    const auto& frame = handshake->mpa().peer_frame();
    if (frame) {
      event.peer_depths = iwarp::depths_of(*frame);
    }
    if (frame && (kind != Kind::established || handshake->mpa().is_initiator())) {
      event.private_data = frame->private_data;
    }
  }
  return consumer_ != nullptr ? consumer_->on_iwarp_event(event) : 0;
}

// --- Sockets that listen

void IwarpService::Impl::on_listener(IwarpPortId id, const TcpSocket* socket) {
  const auto guard = locked();
  const auto found = ports_.find(id);
  if (found == ports_.end()) {
    return;
  }
  for (Listener& listener : found->second.listeners) {
    if (listener.socket.get() == socket) {
      accept_all(id, listener);
    }
  }
}

void IwarpService::Impl::accept_all(IwarpPortId id, Listener& listener) {
  for (int i = 0; i < accepts_max; ++i) {
    auto socket = listener.socket->accept();
    if (socket) {
      welcome(id, std::move(*socket));
      continue;
    }
    const int error = socket.error();
    if (error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM) {
      say(LogLevel::warn, fmt::format("can't accept a connection: {}", sys::error_text(-error)));
      listener.waiter->await_time(accept_retry_interval);
      return;
    }
    if (error == -EAGAIN) {
      break;
    }
    // Others are of one connection, which has gone again.
  }
  listener.waiter->await_input();
}

void IwarpService::Impl::welcome(IwarpPortId id, std::unique_ptr<TcpSocket> socket) {
  if (half_open_.size() >= limits_.half_open_max) {
    evict_oldest();
  }
  const IwarpConnectionId fresh{++last_connection_};
  Connection connection;
  connection.handshake = IwarpHandshake::responder(std::move(socket), config_.mpa);
  connection.port = id;
  if (connection.handshake->remote().storage.ss_family == AF_UNSPEC) {
    ++counters_->refused;  // It was reset before anybody looked, and nobody can tell whose it was.
    return;
  }
  if (!connection.handshake->watch_by(*reactor_, [this, fresh] { on_handshake(fresh); })) {
    connection.handshake->reset();
    return;
  }
  connection.handshake->record(recorder_);
  connection.handshake->limit(limits_.request_timeout);
  half_open_.insert(fresh);
  connections_[fresh] = std::move(connection);
}

void IwarpService::Impl::evict_oldest() {
  const auto oldest = connections_.find(*half_open_.begin());
  ++counters_->evicted;
  oldest->second.handshake->reset();
  half_open_.erase(half_open_.begin());
  connections_.erase(oldest);
}

// --- Connections in the making

void IwarpService::Impl::on_handshake(IwarpConnectionId id) {
  const auto guard = locked();
  const auto at = connections_.find(id);
  if (at == connections_.end() || !at->second.handshake) {
    return;
  }
  IwarpHandshake& handshake = *at->second.handshake;
  const Phase before = handshake.phase();
  const Phase phase = handshake.advance(Engine::now());
  const bool is_new = phase != before;
  if (phase == Phase::over || (is_new && phase == Phase::leaving)) {
    end(at);
  } else if (is_new && phase == Phase::asked) {
    ask(at);
  } else if (is_new && phase == Phase::agreed) {
    conclude(at);
  } else if (is_new && phase == Phase::waiting) {
    handshake.limit(limits_.reply_timeout);
  }
}

void IwarpService::Impl::ask(Connections::iterator at) {
  auto& [id, connection] = *at;
  half_open_.erase(id);
  const auto port = ports_.find(connection.port);
  if (port == ports_.end() || !port->second.cookie) {
    connection.handshake->reset();
    connections_.erase(at);
    return;
  }
  connection.cookie = *port->second.cookie;
  connection.cookie = tell(Kind::request, id, connection);
  if (connection.cookie == 0) {
    connection.handshake->reject({});
    let_go(at);
  }
}

void IwarpService::Impl::let_go(Connections::iterator at) {
  auto& [id, connection] = *at;
  if (connection.handshake->phase() != Phase::leaving) {
    connections_.erase(at);
    return;
  }
  connection.cookie = 0;
  connection.handshake->limit(limits_.leave_patience);
  leaving_.insert(id);
  if (leaving_.size() > limits_.half_open_max) {
    connections_.erase(*leaving_.begin());
    leaving_.erase(leaving_.begin());
  }
}

void IwarpService::Impl::conclude(Connections::iterator at) {
  auto& [id, connection] = *at;
  const bool stands =
      engine_.with_nic([&, &its_id = id, &it = connection](nic::Nic& nic, Time now) {
        TcpPort* const port = engine_.streams();
        return port != nullptr && hand_over(its_id, it, nic, now, *port);
      });
  if (stands) {
    tell(Kind::established, id, connection);
    connection.handshake.reset();
    return;
  }
  connection.handshake->reset();
  tell(Kind::failed, id, connection);
  connections_.erase(at);
}

/// Its handshake is over, or as good as over, and there is no connection.
void IwarpService::Impl::end(Connections::iterator at) {
  auto& [id, connection] = *at;
  const IwarpHandshake& handshake = *connection.handshake;
  if (handshake.mpa().is_initiator()) {
    say(LogLevel::info, fmt::format("no connection: {} {}", sys::error_text(-handshake.status()),
                                    handshake.reason()));
    tell(kind_of(handshake), id, connection);
    connections_.erase(at);
    return;
  }
  if (leaving_.erase(id) != 0) {
    connections_.erase(at);
    return;
  }
  if (half_open_.erase(id) == 0) {
    return;  // The consumer has heard of it, and learns the end when it answers.
  }
  if (handshake.end() == End::timed_out) {
    ++counters_->timed_out;
  } else {
    ++counters_->refused;
    say(LogLevel::info, fmt::format("somebody came and was refused: {}", handshake.reason()));
  }
  let_go(at);
  // What is counted is published by the engine, which may be asleep.
  engine_.with_nic([](nic::Nic&, Time) {});
}

bool IwarpService::Impl::hand_over(IwarpConnectionId id, Connection& connection, nic::Nic& nic,
                                   Time now, TcpPort& port) {
  nic::Qp* const qp = nic.find_qp(connection.qpn);
  IwarpHandshake& handshake = *connection.handshake;
  const iwarp::MpaConnector& mpa = handshake.mpa();
  if (qp == nullptr || !nic.attach_stream(now, *qp,
                                          {.agreement = mpa.agreement(),
                                           .is_initiator = mpa.is_initiator(),
                                           .segment_bytes = handshake.segment_bytes()})) {
    return false;
  }
  connection.depths = mpa.agreement().depths;
  connection.local = handshake.local();
  connection.remote = handshake.remote();
  auto agreed = handshake.take_stream();
  port.adopt(nic, now, *qp, id, std::move(agreed.stream), agreed.early);
  return true;
}

// --- Ends of what stood

void IwarpService::Impl::on_stream_over(IwarpConnectionId id) {
  const std::lock_guard guard(over_mutex_);
  over_.push_back(id);
  reactor_->post([this] { on_streams_over(); });
}

void IwarpService::Impl::on_streams_over() {
  const auto guard = locked();
  std::vector<IwarpConnectionId> over;
  {
    const std::lock_guard inner(over_mutex_);
    over.swap(over_);
  }
  for (const IwarpConnectionId id : over) {
    const auto at = connections_.find(id);
    if (at != connections_.end()) {
      tell(Kind::disconnected, id, at->second);
      connections_.erase(at);
    }
  }
}

}  // namespace verbena::ports
