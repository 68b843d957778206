// TCP without an operating system, for an iWARP device on a link: sockets (tcp_socket.h) over the
// connections of proto/inet/tcp/stack.h.
//
//   handshakes, streams ──▶ OwnSocket ──▶ OwnTcp: one lock ◀── OwnTcpPort: segments, time
//         ▲                     │
//         └── descriptor ◀──────┘   an eventfd, readable as long as there is something to do
//
// Sockets are used by any thread, segments move under the engine's lock. So what a socket leaves to
// be sent goes when the engine runs next: waits_for_engine().
//
// Lock: inside the engine's and the connection manager's. Under it are called the system calls on
// descriptors and, in transmit(), the ways of frames, which know nothing of sockets.
#pragma once

#include <memory>
#include <mutex>

#include "base/time.h"
#include "ports/port.h"
#include "ports/sys.h"
#include "ports/tcp_socket.h"
#include "proto/inet/tcp/stack.h"
#include "proto/verdict.h"

namespace verbena::ports {

class OwnTcp final : public TcpNetwork, public std::enable_shared_from_this<OwnTcp> {
 public:
  /// `settings.draw` may be left out: it is the kernel's then.
  explicit OwnTcp(inet::TcpStack::Settings settings);

  [[nodiscard]] Result<std::unique_ptr<TcpSocket>, int> socket(int family) override;
  [[nodiscard]] bool waits_for_engine() override;
  [[nodiscard]] bool has_delivered() override;

  // For the port.
  /// An Ethernet frame that came by the link.
  RxVerdict on_frame(Time now, ByteView frame);
  void on_timer(Time now);
  [[nodiscard]] Time next_timeout();
  void transmit(Time now, inet::TcpPacketSink& sink);
  void add_to(PortStatistics& statistics);

 private:
  friend class OwnSocket;

  std::mutex mutex_;
  inet::TcpStack stack_;
  std::uint64_t checksums_wrong_ = 0;
};

class OwnSocket final : public TcpSocket, private inet::TcpWatcher {
 public:
  OwnSocket(std::shared_ptr<OwnTcp> tcp, sys::Fd signal);
  ~OwnSocket() override;

  int set_reuse(bool value) override;
  int bind(const SocketAddress& address) override;
  int listen(int backlog) override;
  Result<std::unique_ptr<TcpSocket>, int> accept() override;
  int connect(const SocketAddress& address) override;
  int take_error() override;
  [[nodiscard]] SocketAddress local() const override;
  [[nodiscard]] SocketAddress remote() const override;
  [[nodiscard]] int segment_bytes() const override;
  int send(ByteView bytes) override;
  [[nodiscard]] bool keeps_units() const override { return true; }
  int receive(MutableBytes room) override;
  int end_sending() override;
  void reset_on_close() override { resets_ = true; }
  [[nodiscard]] int fd() const override { return signal_.get(); }
  [[nodiscard]] std::uint32_t room_event() const override;
  void abandon() override { signal_.reset(); }

 private:
  friend class OwnTcp;

  // Under the lock.
  void on_tcp_change() override { update(); }
  /// Sets the descriptor as it has to be.
  void update();
  [[nodiscard]] bool has_something() const;
  [[nodiscard]] const inet::TcpConnection* connection() const { return socket_->tcp.get(); }
  /// Of a connection that is over: -errno, or 0 if it ended in order.
  [[nodiscard]] int end_error() const;

  std::shared_ptr<OwnTcp> tcp_;
  inet::TcpStack::Socket* socket_ = nullptr;
  sys::Fd signal_;
  bool is_set_ = false;
  bool is_connecting_ = false;
  /// A send() found no room for so many bytes; 0 if there was.
  std::size_t blocked_bytes_ = 0;
  /// The peer's end, or the connection's, was told.
  bool end_is_told_ = false;
  bool resets_ = false;
};

}  // namespace verbena::ports
