// The inside of an IwarpService. Private to ports/:
//
//   iwarp_service.cpp           the device, and commands of its program
//   iwarp_service_events.cpp    what sockets, deadlines and the engine tell
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ports/iwarp_handshake.h"
#include "ports/iwarp_service.h"
#include "ports/log.h"
#include "ports/process_hooks.h"
#include "ports/reactor.h"
#include "ports/tcp_port.h"
#include "ports/tcp_socket.h"

namespace verbena::ports {

class IwarpService::Impl final : public StreamListener, public ProcessHook {
 public:
  Impl(Engine& engine, const DeviceConfig& config, const IwarpLimits& limits);
  ~Impl() override;

  [[nodiscard]] Result<void, std::string> start();

  // StreamListener.
  void on_stream_over(IwarpConnectionId id) override;

  // ProcessHook.
  void before_fork() override;
  void after_fork_in_parent() override;
  void after_fork_in_child() override;
  void at_exit() override {}

 private:
  friend class IwarpService;

  struct Listener {
    std::unique_ptr<TcpSocket> socket;
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

  /// Holds the lock. In the end the engine runs if sockets wait for it.
  class Work {
   public:
    explicit Work(Impl& impl) : impl_(impl), guard_(impl.mutex_) {}
    ~Work() { impl_.run_engine_if_needed(); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    Impl& impl_;
    std::lock_guard<std::timed_mutex> guard_;
  };
  [[nodiscard]] Work locked() { return Work(*this); }
  void run_engine_if_needed();

  // Commands, under the lock.
  Result<Bound, int> bind(const IwarpBindClaim& claim);
  int listen(IwarpPortId id, int backlog, std::uintptr_t cookie);
  int listen(IwarpPortId id, Listener& listener, int backlog);
  Result<IwarpConnectionId, int> connect(const IwarpConnect& what);
  int accept(IwarpConnectionId id, Qpn qpn, const iwarp::ReadDepths& depths, ByteView private_data);
  int reject(IwarpConnectionId id, ByteView private_data);
  int disconnect(IwarpConnectionId id, bool at_once);
  void destroy(IwarpConnectionId id);
  [[nodiscard]] bool is_acceptable(const iwarp::ReadDepths& depths, ByteView private_data) const;
  /// The bound socket from which to connect to that peer.
  [[nodiscard]] Result<std::unique_ptr<TcpSocket>, int> socket_for(const IwarpConnect& what);
  [[nodiscard]] Connections::iterator find_asked(IwarpConnectionId id);

  // The reactor's handlers.
  void on_listener(IwarpPortId id, const TcpSocket* socket);
  void on_handshake(IwarpConnectionId id);
  void on_streams_over();

  void accept_all(IwarpPortId id, Listener& listener);
  void welcome(IwarpPortId id, std::unique_ptr<TcpSocket> socket);
  /// Room for one who has come.
  void evict_oldest();
  /// A responder has the request.
  void ask(Connections::iterator at);
  /// It was refused, and nobody but the peer waits for its end.
  void let_go(Connections::iterator at);
  /// An initiator has the reply.
  void conclude(Connections::iterator at);
  void end(Connections::iterator at);
  /// Gives the connection to its queue pair; false if that can't have it.
  [[nodiscard]] bool hand_over(IwarpConnectionId id, Connection& connection, nic::Nic& nic,
                               Time now, TcpPort& port);
  std::uintptr_t tell(IwarpEvent::Kind kind, IwarpConnectionId id, const Connection& connection);
  void say(LogLevel level, std::string_view what) const;

  Engine& engine_;
  const DeviceConfig config_;
  const IwarpLimits limits_;
  std::shared_ptr<HandshakeCounters> counters_;
  std::shared_ptr<StreamRecorder> recorder_;
  std::shared_ptr<TcpNetwork> network_;
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
  /// Those who were refused and haven't closed yet; the oldest first.
  std::set<IwarpConnectionId> leaving_;
  std::uint64_t last_port_ = 0;
  std::uint64_t last_connection_ = 0;

  /// Innermost: taken under the engine's lock.
  std::mutex over_mutex_;
  std::vector<IwarpConnectionId> over_;
};

}  // namespace verbena::ports
