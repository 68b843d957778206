// One connection in the making: from TCP's handshake to the last byte of MPA's start frames, over a
// socket that never waits. Says what became of it; when to look again, and for how long, is its
// owner's business (iwarp_service.h).
//
//   initiator   connecting ─► waiting ─► agreed
//   responder                 waiting ─► asked ─ accept() ─► agreed
//                                   └───────┴─ refused ─► leaving
//   any of them ─► over: status() and end() say why
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "ports/reactor.h"
#include "ports/socket_address.h"
#include "ports/stream_capture.h"
#include "ports/tcp_socket.h"
#include "ports/tcp_stream.h"
#include "proto/iwarp/connector.h"

namespace verbena::ports {

class IwarpHandshake {
 public:
  enum class Phase : std::uint8_t {
    connecting,
    waiting,
    asked,
    agreed,
    /// The peer was told that it is refused, and closes. Who closes first may be faster than his
    /// own words: siw, which hears of both at once, looks at the end first.
    leaving,
    over,
  };
  /// What ended it.
  enum class End : std::uint8_t {
    none,
    /// The kernel or the peer's: status() tells.
    connection,
    /// The peer's program said no.
    rejected,
    /// The peer said what we can't agree with; or nothing that makes sense.
    disagreed,
    timed_out,
  };

  /// An initiator whose socket has a local address; connect() follows.
  [[nodiscard]] static std::unique_ptr<IwarpHandshake> initiator(std::unique_ptr<TcpSocket> socket,
                                                                 const iwarp::MpaSettings& settings,
                                                                 const SocketAddress& remote);
  /// A responder, over a TCP connection that was accepted.
  [[nodiscard]] static std::unique_ptr<IwarpHandshake> responder(
      std::unique_ptr<TcpSocket> socket, const iwarp::MpaSettings& settings);
  ~IwarpHandshake();
  IwarpHandshake(const IwarpHandshake&) = delete;
  IwarpHandshake& operator=(const IwarpHandshake&) = delete;

  /// Has `handler` called when there is something to do for advance(). The error is an errno value.
  [[nodiscard]] Result<void, int> watch_by(Reactor& reactor, Reactor::Handler handler);
  /// Shows its segments in a capture.
  void record(const std::shared_ptr<StreamRecorder>& recorder);

  // Commands.
  /// Whatever goes wrong from here on is told by advance(). Where nobody listens it is tried again
  /// for as long as `listener_patience`.
  void connect(iwarp::ReadDepths depths, ByteView private_data, Duration listener_patience);
  /// From asked. False: the peer has given up.
  [[nodiscard]] bool accept(iwarp::ReadDepths depths, ByteView private_data);
  /// From asked; to leaving, if the peer could be told.
  void reject(ByteView private_data);
  /// The phase that it is in must be left by then.
  void limit(Duration from_now);
  /// Gives up: the connection is reset.
  void reset();

  /// Does what can be done now, and waits for the rest.
  Phase advance(Time now);

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] End end() const { return end_; }
  /// Of an end by the connection, and of a reject: -errno.
  [[nodiscard]] int status() const { return status_; }
  /// Of a disagreement, in words.
  [[nodiscard]] const std::string& reason() const { return mpa_.reason(); }
  [[nodiscard]] const iwarp::MpaConnector& mpa() const { return mpa_; }
  [[nodiscard]] const SocketAddress& local() const { return local_; }
  [[nodiscard]] const SocketAddress& remote() const { return remote_; }
  /// What a TCP segment carries.
  [[nodiscard]] std::size_t segment_bytes() const;

  /// From agreed: the connection, and what came behind the peer's start frame.
  struct Agreed {
    std::unique_ptr<TcpStream> stream;
    std::vector<std::byte> early;
  };
  [[nodiscard]] Agreed take_stream();

  /// In the child of a fork(): closes the descriptor and nothing else; the object is leaked.
  void abandon() { socket_->abandon(); }

 private:
  IwarpHandshake(std::unique_ptr<TcpSocket> socket, const iwarp::MpaSettings& settings,
                 bool is_initiator);

  /// Tries to connect, once.
  void attempt(Time now);
  /// After an attempt that was refused.
  int connect_again();
  /// Whoever listened there ends one listener and begins the next, as perftest does: the connection
  /// is refused only if it still is a moment later. True: another attempt follows.
  [[nodiscard]] bool awaits_listener(int error, Time now);
  /// Until the socket is connected, or isn't.
  void await_connection();
  /// For the deadline or the next attempt, whatever comes first.
  void await_time(Time now);
  void advance_connecting(Time now);
  void advance_waiting();
  void advance_asked();
  void advance_leaving();
  /// The peer has said all it has to.
  void on_peer_frame();
  /// Says what a responder has to say to whom it refuses.
  void refuse(End end, int status);
  /// A start frame is less than any socket's send buffer, so one that isn't taken at once never
  /// will be.
  [[nodiscard]] bool say_all();
  void finish(End end, int status);

  std::unique_ptr<TcpSocket> socket_;
  iwarp::MpaConnector mpa_;
  std::unique_ptr<Reactor::Waiter> waiter_;
  std::shared_ptr<StreamRecorder> recorder_;
  std::unique_ptr<StreamCapture> capture_;
  SocketAddress local_;
  SocketAddress remote_;
  Phase phase_;
  End end_ = End::none;
  int status_ = 0;
  Time deadline_ = time_never;
  /// Of an initiator that was refused.
  Time next_attempt_ = time_never;
  Time patience_ends_{};
  std::vector<std::byte> early_;
};

}  // namespace verbena::ports
