#include "ports/iwarp_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ports/failure_journal.h"
#include "ports/iwarp_handshake.h"
#include "ports/iwarp_sockets.h"
#include "ports/log.h"
#include "ports/process_hooks.h"
#include "ports/reactor.h"
#include "ports/sys.h"
#include "ports/sys_tcp.h"
#include "ports/tcp_port.h"
#include "proto/roce/gid.h"

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
/// fork() doesn't wait longer for the lock (engine_loop.cpp).
constexpr Duration hook_patience = 200ms;

IwarpLimits checked(IwarpLimits limits) {
  limits.half_open_max = std::max<std::size_t>(limits.half_open_max, 1);
  return limits;
}

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

class IwarpService::Impl final : public StreamListener, public ProcessHook {
 public:
  Impl(Engine& engine, const DeviceConfig& config, const IwarpLimits& limits)
      : engine_(engine), config_(config), limits_(checked(limits)) {}
  ~Impl() override;

  [[nodiscard]] Result<void, std::string> start();

  // StreamListener.
  void on_stream_over(IwarpConnectionId id) override;

  // ProcessHook.
  void before_fork() override { locked_for_fork_ = mutex_.try_lock_for(hook_patience); }
  void after_fork_in_parent() override;
  void after_fork_in_child() override;
  void at_exit() override {}

 private:
  friend class IwarpService;

  struct Listener {
    sys::Fd socket;
    std::unique_ptr<Reactor::Waiter> waiter;
  };
  struct BoundPort {
    std::vector<Listener> listeners;
    std::optional<std::uintptr_t> cookie;
  };
  struct Connection {
    std::uintptr_t cookie = 0;
    Qpn qpn{};
    iwarp::ReadDepths depths;
    /// Until it stands, or is over.
    std::unique_ptr<IwarpHandshake> handshake;
    /// Of one that somebody else began: where he came.
    IwarpPortId port{};
    /// Where it goes from and to, once it stands.
    SocketAddress local;
    SocketAddress remote;
  };
  using Connections = std::map<IwarpConnectionId, Connection>;

  [[nodiscard]] std::unique_lock<std::timed_mutex> locked() {
    return std::unique_lock<std::timed_mutex>(mutex_);
  }

  // Commands, under the lock.
  Result<Bound, int> bind(const IwarpBindClaim& claim);
  int listen(IwarpPortId id, int backlog, std::uintptr_t cookie);
  Result<IwarpConnectionId, int> connect(const IwarpConnect& what);
  int accept(IwarpConnectionId id, Qpn qpn, const iwarp::ReadDepths& depths, ByteView private_data);
  int reject(IwarpConnectionId id, ByteView private_data);
  int disconnect(IwarpConnectionId id, bool at_once);
  void destroy(IwarpConnectionId id);
  [[nodiscard]] bool is_acceptable(const iwarp::ReadDepths& depths, ByteView private_data) const;
  /// The bound socket from which to connect to that peer.
  [[nodiscard]] Result<sys::Fd, int> socket_for(const IwarpConnect& what);
  [[nodiscard]] Connections::iterator find_asked(IwarpConnectionId id);

  // The reactor's handlers.
  void on_listener(IwarpPortId id, int socket);
  void on_handshake(IwarpConnectionId id);
  void on_streams_over();

  void accept_all(IwarpPortId id, Listener& listener);
  void welcome(IwarpPortId id, sys::Fd socket);
  /// Room for one who has come.
  void evict_oldest();
  /// A responder has the request.
  void ask(Connections::iterator at);
  /// An initiator has the reply.
  void conclude(Connections::iterator at);
  void end(Connections::iterator at);
  /// Gives the connection to its queue pair; false if that can't have it.
  [[nodiscard]] bool hand_over(IwarpConnectionId id, Connection& connection, nic::Nic& nic,
                               Time now, TcpPort& port);
  std::uintptr_t tell(Kind kind, IwarpConnectionId id, const Connection& connection);
  void say(LogLevel level, std::string_view what) const;

  Engine& engine_;
  const DeviceConfig config_;
  const IwarpLimits limits_;
  std::shared_ptr<HandshakeCounters> counters_;
  std::shared_ptr<StreamRecorder> recorder_;
  std::size_t private_data_room_ = 0;
  iwarp::ReadDepths depths_max_;

  std::timed_mutex mutex_;
  bool locked_for_fork_ = false;
  IwarpConsumer* consumer_ = nullptr;
  std::unique_ptr<Reactor> reactor_;
  std::map<IwarpPortId, BoundPort> ports_;
  Connections connections_;
  /// Those who have come and whose request isn't complete; the oldest first.
  std::set<IwarpConnectionId> half_open_;
  std::uint64_t last_port_ = 0;
  std::uint64_t last_connection_ = 0;

  /// Innermost: taken under the engine's lock.
  std::mutex over_mutex_;
  std::vector<IwarpConnectionId> over_;
};

// --- The object

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
      port->set_listener(this);
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
      listener.socket.reset();
    }
  }
  for (auto& [id, connection] : connections_) {
    if (connection.handshake) {
      connection.handshake->abandon();
    }
  }
  mutex_.unlock();
}

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
    if (frame && frame->enhanced) {
      event.peer_depths = frame->enhanced->depths;
    }
    if (frame && (kind != Kind::established || handshake->mpa().is_initiator())) {
      event.private_data = frame->private_data;
    }
  }
  return consumer_ != nullptr ? consumer_->on_iwarp_event(event) : 0;
}

// --- Ports

Result<IwarpDevice::Bound, int> IwarpService::Impl::bind(const IwarpBindClaim& claim) {
  auto bound = bind_sockets(claim, config_.addresses);
  if (!bound) {
    return std::unexpected(bound.error());
  }
  const IwarpPortId id{++last_port_};
  for (sys::Fd& socket : bound->sockets) {
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
    const int socket = listener.socket.get();
    // Who bound the same port and listens is in the way; who only waits for its end isn't.
    static_cast<void>(sys::set_reuse(socket, true));
    if (const int result = sys::listen_on(socket, backlog); result < 0) {
      return -result;
    }
    if (!listener.waiter) {
      auto waiter = reactor_->watch(socket, [this, id, socket] { on_listener(id, socket); });
      if (!waiter) {
        return waiter.error();
      }
      listener.waiter = std::move(*waiter);
      listener.waiter->await_input();
    }
  }
  found->second.cookie = cookie;
  return 0;
}

void IwarpService::Impl::on_listener(IwarpPortId id, int socket) {
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
    auto socket = sys::accept_from(listener.socket.get());
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

void IwarpService::Impl::welcome(IwarpPortId id, sys::Fd socket) {
  if (half_open_.size() >= limits_.half_open_max) {
    evict_oldest();
  }
  const IwarpConnectionId fresh{++last_connection_};
  Connection connection;
  connection.handshake = IwarpHandshake::responder(std::move(socket), config_.mpa);
  connection.port = id;
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
  if (phase == Phase::over) {
    end(at);
  } else if (phase != before && phase == Phase::asked) {
    ask(at);
  } else if (phase != before && phase == Phase::agreed) {
    conclude(at);
  } else if (phase != before && phase == Phase::waiting) {
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
    connections_.erase(at);
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

/// Its handshake is over, and there is no connection.
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
  if (half_open_.erase(id) == 0) {
    return;  // The consumer has heard of it, and learns the end when it answers.
  }
  if (handshake.end() == End::timed_out) {
    ++counters_->timed_out;
  } else {
    ++counters_->refused;
    say(LogLevel::info, fmt::format("somebody came and was refused: {}", handshake.reason()));
  }
  connections_.erase(at);
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

// --- Commands

bool IwarpService::Impl::is_acceptable(const iwarp::ReadDepths& depths,
                                       ByteView private_data) const {
  return private_data.size() <= private_data_room_ && depths.ird <= depths_max_.ird &&
         depths.ord <= depths_max_.ord;
}

namespace {

/// A queue pair that can have a connection.
bool is_free(nic::Nic& nic, Qpn qpn) {
  const nic::Qp* const qp = nic.find_qp(qpn);
  return qp != nullptr && nic::type_of(*qp) == nic::QpType::rc &&
         nic::state_of(*qp) == nic::QpState::init;
}

}  // namespace

Result<sys::Fd, int> IwarpService::Impl::socket_for(const IwarpConnect& what) {
  if (what.bound == IwarpPortId{}) {
    auto bound = bind_sockets({.address = what.local}, config_.addresses);
    return bound ? Result<sys::Fd, int>(std::move(bound->sockets.front()))
                 : std::unexpected(bound.error());
  }
  const auto found = ports_.find(what.bound);
  if (found == ports_.end() || found->second.cookie) {
    return std::unexpected(EINVAL);
  }
  const auto wanted = address_of(*what.local.get());
  for (Listener& listener : found->second.listeners) {
    const SocketAddress local = sys::local_address(listener.socket.get());
    if (address_of(*local.get()) == wanted) {
      sys::Fd socket = std::move(listener.socket);
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
  static_cast<void>(sys::set_reuse(socket->get(), true));
  const IwarpConnectionId id{++last_connection_};
  Connection connection;
  connection.cookie = what.cookie;
  connection.qpn = what.qpn;
  connection.handshake = IwarpHandshake::initiator(std::move(*socket), config_.mpa, what.remote);
  if (auto watched = connection.handshake->watch_by(*reactor_, [this, id] { on_handshake(id); });
      !watched) {
    return std::unexpected(watched.error());
  }
  connection.handshake->record(recorder_);
  connection.handshake->limit(limits_.connect_timeout);
  connection.handshake->connect(what.depths, what.private_data);
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
    tell(Kind::established, id, connection);
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
  connections_.erase(at);
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
  if (at == connections_.end()) {
    return;
  }
  half_open_.erase(id);
  if (IwarpHandshake* const handshake = at->second.handshake.get()) {
    if (handshake->phase() == Phase::asked) {
      handshake->reject({});
    } else if (handshake->phase() != Phase::over) {
      handshake->reset();
    }
  } else {
    static_cast<void>(disconnect(id, false));
  }
  connections_.erase(at);
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
