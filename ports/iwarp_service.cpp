#include "ports/iwarp_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "ports/failure_journal.h"
#include "ports/iwarp_service_impl.h"
#include "ports/iwarp_sockets.h"

namespace verbena::ports {

namespace {

using namespace std::chrono_literals;
using Phase = IwarpHandshake::Phase;

/// fork() doesn't wait longer for the lock (engine_loop.cpp).
constexpr Duration hook_patience = 200ms;

/// As the configuration wants it.
IwarpLimits checked(IwarpLimits limits, const DeviceConfig& config) {
  limits.connect_timeout = std::min(limits.connect_timeout, config.connect_timeout);
  limits.reply_timeout = std::min(limits.reply_timeout, config.connect_timeout);
  limits.half_open_max = std::max<std::size_t>(limits.half_open_max, 1);
  return limits;
}

/// A queue pair that can have a connection.
bool is_free(nic::Nic& nic, Qpn qpn) {
  const nic::Qp* const qp = nic.find_qp(qpn);
  return qp != nullptr && nic::type_of(*qp) == nic::QpType::rc &&
         nic::state_of(*qp) == nic::QpState::init;
}

}  // namespace

IwarpService::Impl::Impl(Engine& engine, const DeviceConfig& config, const IwarpLimits& limits)
    : engine_(engine), config_(config), limits_(checked(limits, config)) {}

Result<void, std::string> IwarpService::Impl::start() {
  auto reactor = Reactor::open("verbena-iwarp");
  if (!reactor) {
    return std::unexpected(std::move(reactor.error()));
  }
  reactor_ = std::move(*reactor);
  private_data_room_ = iwarp::MpaConnector::initiator(config_.mpa).private_data_room();
  engine_.with_nic([&](nic::Nic& nic, Time) {
    const std::uint16_t depth =
        std::min<std::uint16_t>(nic.ird_max(), config_.profile.qp_rd_atom_max);
    depths_max_ = {.ird = depth, .ord = depth};
    if (TcpPort* const port = engine_.streams()) {
      counters_ = port->handshakes();
      recorder_ = port->recorder();
      network_ = port->network();
      port->set_listener(this);
      port->set_close_patience(limits_.close_patience);
    }
  });
  add_process_hook(*this);
  if (!counters_) {
    return std::unexpected(fmt::format("{} is no iWARP device", config_.name));
  }
  return {};
}

IwarpService::Impl::~Impl() {
  remove_process_hook(*this);
  engine_.with_nic([&](nic::Nic&, Time) {
    if (TcpPort* const port = engine_.streams()) {
      port->set_listener(nullptr);
    }
  });
  if (reactor_) {
    reactor_->stop();
  }
}

void IwarpService::Impl::run_engine_if_needed() {
  if (network_ && network_->waits_for_engine()) {
    engine_.with_nic([](nic::Nic&, Time) {});
  }
}

void IwarpService::Impl::before_fork() { locked_for_fork_ = mutex_.try_lock_for(hook_patience); }

void IwarpService::Impl::after_fork_in_parent() {
  if (locked_for_fork_) {
    mutex_.unlock();
  }
}

/// Descriptors that stay open in a child would keep ports occupied and connections alive.
void IwarpService::Impl::after_fork_in_child() {
  if (!locked_for_fork_) {
    return;
  }
  for (auto& [id, port] : ports_) {
    for (Listener& listener : port.listeners) {
      listener.socket->abandon();
    }
  }
  for (auto& [id, connection] : connections_) {
    if (connection.handshake) {
      connection.handshake->abandon();
    }
  }
  mutex_.unlock();
}

// --- Ports

Result<IwarpDevice::Bound, int> IwarpService::Impl::bind(const IwarpBindClaim& claim) {
  auto bound = bind_sockets(*network_, claim, config_.addresses);
  if (!bound) {
    return std::unexpected(bound.error());
  }
  const IwarpPortId id{++last_port_};
  for (std::unique_ptr<TcpSocket>& socket : bound->sockets) {
    ports_[id].listeners.push_back({.socket = std::move(socket), .waiter = nullptr});
  }
  return Bound{.id = id, .port = bound->port};
}

int IwarpService::Impl::listen(IwarpPortId id, int backlog, std::uintptr_t cookie) {
  const auto found = ports_.find(id);
  if (found == ports_.end()) {
    return EINVAL;
  }
  for (Listener& listener : found->second.listeners) {
    if (const int error = listen(id, listener, backlog); error != 0) {
      // There is no way back for those that listen already, but to close them.
      ports_.erase(found);
      return error;
    }
  }
  found->second.cookie = cookie;
  return 0;
}

int IwarpService::Impl::listen(IwarpPortId id, Listener& listener, int backlog) {
  TcpSocket* const socket = listener.socket.get();
  // Who bound the same port and listens is in the way; who only waits for its end isn't.
  static_cast<void>(socket->set_reuse(true));
  if (const int result = socket->listen(backlog); result < 0) {
    return -result;
  }
  if (!listener.waiter) {
    auto waiter = reactor_->watch(socket->fd(), [this, id, socket] { on_listener(id, socket); });
    if (!waiter) {
      return waiter.error();
    }
    listener.waiter = std::move(*waiter);
    listener.waiter->await_input();
  }
  return 0;
}

// --- Commands

bool IwarpService::Impl::is_acceptable(const iwarp::ReadDepths& depths,
                                       ByteView private_data) const {
  return private_data.size() <= private_data_room_ && depths.ird <= depths_max_.ird &&
         depths.ord <= depths_max_.ord;
}

Result<std::unique_ptr<TcpSocket>, int> IwarpService::Impl::socket_for(const IwarpConnect& what) {
  if (what.bound == IwarpPortId{}) {
    auto bound = bind_sockets(*network_, {.address = what.local}, config_.addresses);
    if (!bound) {
      return std::unexpected(bound.error());
    }
    return std::move(bound->sockets.front());
  }
  const auto found = ports_.find(what.bound);
  if (found == ports_.end() || found->second.cookie) {
    return std::unexpected(EINVAL);
  }
  const auto wanted = address_of(*what.local.get());
  for (Listener& listener : found->second.listeners) {
    const SocketAddress local = listener.socket->local();
    if (address_of(*local.get()) == wanted) {
      std::unique_ptr<TcpSocket> socket = std::move(listener.socket);
      ports_.erase(found);
      return socket;
    }
  }
  return std::unexpected(EADDRNOTAVAIL);
}

Result<IwarpConnectionId, int> IwarpService::Impl::connect(const IwarpConnect& what) {
  const bool is_possible =
      is_acceptable(what.depths, what.private_data) &&
      what.remote.storage.ss_family == what.local.storage.ss_family &&
      engine_.with_nic([&](nic::Nic& nic, Time) { return is_free(nic, what.qpn); });
  if (!is_possible) {
    return std::unexpected(EINVAL);
  }
  auto socket = socket_for(what);
  if (!socket) {
    return std::unexpected(socket.error());
  }
  static_cast<void>((*socket)->set_reuse(true));
  const IwarpConnectionId id{++last_connection_};
  Connection connection;
  connection.cookie = what.cookie;
  connection.qpn = what.qpn;
  // is_possible has seen that it has the family of the local one, which was bound.
  const Gid local = address_of(*what.local.get()).value_or(Gid{});
  connection.handshake =
      IwarpHandshake::initiator(std::move(*socket), config_.mpa, with_scope(what.remote, local));
  if (auto watched = connection.handshake->watch_by(*reactor_, [this, id] { on_handshake(id); });
      !watched) {
    return std::unexpected(watched.error());
  }
  connection.handshake->record(recorder_);
  connection.handshake->limit(limits_.connect_timeout);
  connection.handshake->connect(what.depths, what.private_data, limits_.listener_patience);
  connections_[id] = std::move(connection);
  return id;
}

IwarpService::Impl::Connections::iterator IwarpService::Impl::find_asked(IwarpConnectionId id) {
  const auto at = connections_.find(id);
  const bool is_asked = at != connections_.end() && at->second.handshake &&
                        at->second.cookie != 0 && !at->second.handshake->mpa().is_initiator();
  return is_asked ? at : connections_.end();
}

int IwarpService::Impl::accept(IwarpConnectionId id, Qpn qpn, const iwarp::ReadDepths& depths,
                               ByteView private_data) {
  const auto at = find_asked(id);
  if (at == connections_.end() || !is_acceptable(depths, private_data)) {
    return EINVAL;
  }
  Connection& connection = at->second;
  if (connection.handshake->phase() == Phase::over) {
    connections_.erase(at);
    return ECONNRESET;
  }
  const int error = engine_.with_nic([&](nic::Nic& nic, Time now) {
    TcpPort* const port = engine_.streams();
    if (port == nullptr || !is_free(nic, qpn)) {
      return EINVAL;
    }
    connection.qpn = qpn;
    return connection.handshake->accept(depths, private_data) &&
                   hand_over(id, connection, nic, now, *port)
               ? 0
               : ECONNRESET;
  });
  if (error == 0) {
    tell(IwarpEvent::Kind::established, id, connection);
    connection.handshake.reset();
  } else if (error == ECONNRESET) {
    connection.handshake->reset();
    connections_.erase(at);
  }
  return error;
}

int IwarpService::Impl::reject(IwarpConnectionId id, ByteView private_data) {
  const auto at = find_asked(id);
  if (at == connections_.end() || private_data.size() > private_data_room_) {
    return EINVAL;
  }
  if (at->second.handshake->phase() == Phase::asked) {
    at->second.handshake->reject(private_data);
  }
  let_go(at);
  return 0;
}

int IwarpService::Impl::disconnect(IwarpConnectionId id, bool at_once) {
  return engine_.with_nic([&](nic::Nic& nic, Time now) {
    TcpPort* const port = engine_.streams();
    nic::Qp* const qp = port != nullptr ? port->owner_of(id) : nullptr;
    if (qp == nullptr) {
      return EINVAL;
    }
    nic::QpAttr attr;
    attr.state = at_once ? nic::QpState::err : nic::QpState::sqd;
    if (at_once || nic::state_of(*qp) == nic::QpState::rts) {
      static_cast<void>(nic.modify_qp(now, *qp, attr, nic::qp_attr_mask::state));
    }
    return 0;
  });
}

void IwarpService::Impl::destroy(IwarpConnectionId id) {
  const auto at = connections_.find(id);
  if (at == connections_.end() || leaving_.contains(id)) {
    return;
  }
  half_open_.erase(id);
  if (IwarpHandshake* const handshake = at->second.handshake.get()) {
    if (handshake->phase() == Phase::asked) {
      handshake->reject({});
      let_go(at);
      return;
    }
    if (handshake->phase() != Phase::over) {
      handshake->reset();
    }
  } else {
    static_cast<void>(disconnect(id, false));
  }
  connections_.erase(at);
}

// --- The device

Result<std::unique_ptr<IwarpService>, std::string> IwarpService::open(Engine& engine,
                                                                      const DeviceConfig& config,
                                                                      const IwarpLimits& limits) {
  auto impl = std::make_unique<Impl>(engine, config, limits);
  if (auto started = impl->start(); !started) {
    return std::unexpected(std::move(started.error()));
  }
  return std::unique_ptr<IwarpService>(new IwarpService(std::move(impl)));
}

IwarpService::IwarpService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

IwarpService::~IwarpService() = default;

void IwarpService::set_consumer(IwarpConsumer& consumer) {
  if (!is_dead()) {
    const auto guard = impl_->locked();
    impl_->consumer_ = &consumer;
  }
}

bool IwarpService::is_dead() const { return impl_->engine_.is_dead(); }

std::span<const Gid> IwarpService::addresses() const { return impl_->config_.addresses; }

std::optional<Gid> IwarpService::address_toward(const Gid& peer) const {
  return impl_->config_.address_toward(peer);
}

iwarp::ReadDepths IwarpService::depths_max() const { return impl_->depths_max_; }

std::size_t IwarpService::private_data_room() const { return impl_->private_data_room_; }

Result<IwarpDevice::Bound, int> IwarpService::bind(const IwarpBindClaim& claim) {
  if (is_dead()) {
    return std::unexpected(EIO);
  }
  const auto guard = impl_->locked();
  return impl_->bind(claim);
}

int IwarpService::listen(IwarpPortId id, int backlog, std::uintptr_t cookie) {
  if (is_dead()) {
    return EIO;
  }
  const auto guard = impl_->locked();
  return impl_->listen(id, backlog, cookie);
}

void IwarpService::release(IwarpPortId id) {
  if (!is_dead()) {
    const auto guard = impl_->locked();
    impl_->ports_.erase(id);
  }
}

Result<IwarpConnectionId, int> IwarpService::connect(const IwarpConnect& what) {
  if (is_dead()) {
    return std::unexpected(EIO);
  }
  const auto guard = impl_->locked();
  return impl_->connect(what);
}

int IwarpService::accept(IwarpConnectionId id, Qpn qpn, const iwarp::ReadDepths& depths,
                         ByteView private_data) {
  if (is_dead()) {
    return EIO;
  }
  const auto guard = impl_->locked();
  return impl_->accept(id, qpn, depths, private_data);
}

int IwarpService::reject(IwarpConnectionId id, ByteView private_data) {
  if (is_dead()) {
    return EIO;
  }
  const auto guard = impl_->locked();
  return impl_->reject(id, private_data);
}

int IwarpService::disconnect(IwarpConnectionId id, bool at_once) {
  if (is_dead()) {
    return EIO;
  }
  const auto guard = impl_->locked();
  return impl_->disconnect(id, at_once);
}

void IwarpService::destroy(IwarpConnectionId id) {
  if (!is_dead()) {
    const auto guard = impl_->locked();
    impl_->destroy(id);
  }
}

void IwarpService::note_failure(const std::string& sentence) {
  if (!is_dead()) {
    static_cast<void>(impl_->engine_.with_fabric([&](Fabric& fabric) {
      ports::note_failure(fabric, Engine::now(), sentence);
      return true;
    }));
  }
}

}  // namespace verbena::ports
