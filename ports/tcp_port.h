// The port of an iWARP device: moves the bytes of its queue pairs' connections between the Nic and
// TCP sockets. What has to happen before a connection stands is done in iwarp_service.h.
//
//              on_stream()  ◀── one large read for each socket that is readable
//     NIC ◀──▶ TcpPort ◀──▶ TcpStream ◀──▶ socket
//              poll_streams() ──▶ FPDUs, built in the room of their stream; flush() sends them
//
// As a device of frames it has a place in the fabric, for its queue pair numbers, its doorbell and
// what it publishes; but no frame of it goes there. The sockets are the operating system's, or
// those of a TCP of our own, whose segments go by the port behind this one (own_tcp_port.h).
//
// One descriptor to sleep on: an epoll set of the doorbell and, only while somebody sleeps for
// bytes, of the set of all sockets.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "nic_model/nic.h"
#include "ports/iwarp_device.h"
#include "ports/port.h"
#include "ports/stream_capture.h"
#include "ports/sys.h"
#include "ports/tcp_socket.h"
#include "ports/tcp_stream.h"

namespace verbena::ports {

/// Hears of the ends of connections. Called under the engine's lock: be brief, and call nothing of
/// the engine.
class StreamListener {
 public:
  virtual ~StreamListener() = default;
  /// The connection is closed in both directions, or lost; or its queue pair was destroyed.
  virtual void on_stream_over(IwarpConnectionId id) = 0;
};

/// What comes to nothing before there is a connection, for the port's statistics. Any thread.
struct HandshakeCounters {
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> timed_out{0};
  std::atomic<std::uint64_t> evicted{0};
};

class TcpPort final : public Port, public nic::StreamPort {
 public:
  /// `frames` is the device's place in the fabric and, if the TCP of `network` is our own, the way
  /// of its segments. `recorder` may be null. The error is a sentence.
  [[nodiscard]] static Result<std::unique_ptr<TcpPort>, std::string> open(
      std::unique_ptr<Port> frames, std::shared_ptr<TcpNetwork> network,
      std::shared_ptr<StreamRecorder> recorder);
  ~TcpPort() override;

  static constexpr Duration close_patience_default = std::chrono::seconds(5);

  // Commands.
  void set_listener(StreamListener* listener) { listener_ = listener; }
  /// For so long a connection that ends in order may stand still, with something still to be sent
  /// or answered; and so long the peer may take to close its side once we have closed ours. Then
  /// the connection is reset.
  void set_close_patience(Duration patience) { close_patience_ = patience; }
  [[nodiscard]] const std::shared_ptr<HandshakeCounters>& handshakes() const { return handshakes_; }
  [[nodiscard]] const std::shared_ptr<StreamRecorder>& recorder() const { return recorder_; }
  [[nodiscard]] const std::shared_ptr<TcpNetwork>& network() const { return network_; }
  /// From now on the queue pair, to which attach_stream() was said, owns the connection. One that
  /// it had before, and that the peer has not closed yet, is given up. `early` came behind the
  /// peer's start frame.
  void adopt(nic::Nic& nic, Time now, nic::Qp& qp, IwarpConnectionId id,
             std::unique_ptr<TcpStream> stream, ByteView early);
  /// The owner of a connection that stands, or nullptr.
  [[nodiscard]] nic::Qp* owner_of(IwarpConnectionId id) const;
  /// The queue pair is about to be destroyed: what was sent is sent, then its connection ends.
  void forget(const nic::Qp& qp);

  // For the engine's loop, in this order in each batch.
  struct Received {
    std::uint32_t pieces = 0;
    /// There is more, and nothing will tell of it.
    bool more = false;
  };
  /// Feeds what has come to the Nic.
  [[nodiscard]] Received receive(nic::Nic& nic, Time now);
  // nic.poll_streams(now, port), then flush(), then:
  /// Ends connections that are through, or lost.
  void settle(nic::Nic& nic, Time now);

  // nic::StreamPort.
  [[nodiscard]] iwarp::StreamSink& stream_of(const nic::Qp& qp) override;
  void close_stream(const nic::Qp& qp, Close how) override;

  // Port.
  MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override {
    return frames_->reserve(route, bytes);
  }
  void commit(const PacketNote& note) override { frames_->commit(note); }
  [[nodiscard]] bool is_unread(const FrameRoute& route) override {
    return frames_->is_unread(route);
  }
  /// What others send into our ring is taken out, so that it doesn't hold them up.
  std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t frames_max) override {
    return frames_->poll_receive(handler, frames_max);
  }
  void flush() override;
  bool prepare_sleep() override;
  void finish_sleep() override;
  [[nodiscard]] int fd() const override { return sleepers_.get(); }
  void wake() override { frames_->wake(); }
  void begin_batch(Time now) override;
  [[nodiscard]] Time next_deadline() const override;
  void set_membership(const nic::Membership& membership) override {
    frames_->set_membership(membership);
  }
  [[nodiscard]] PortStatistics statistics() const override;
  void abandon() override;

 private:
  struct Connection;

  TcpPort(std::unique_ptr<Port> frames, std::shared_ptr<TcpNetwork> network,
          std::shared_ptr<StreamRecorder> recorder, sys::Fd sleepers, sys::Fd sockets);

  static void give_up(TcpStream& stream);
  /// Before the end of a process whose TCP ends with it: waits a moment until peers have all.
  void linger();
  void end_in_order(TcpStream& stream);
  [[nodiscard]] Connection* find(const nic::Qp& qp) const;
  [[nodiscard]] Connection* on_socket(int fd) const;
  /// Reads once. True if there may be more.
  bool read(Connection& connection, nic::Nic& nic, Time now);
  void after_sending(Connection& connection);
  /// It ends in order, and something has just moved, or begins to.
  void renew_patience(Connection& connection);
  /// What the set of sockets shall tell of this one.
  void watch(Connection& connection);
  /// It will be over soon, or is: settle() looks after it.
  void note_end(Connection& connection);
  /// Brings an end forward; true when the connection is over.
  [[nodiscard]] bool advance_end(Connection& connection, Time now);
  void erase(Connection& connection);

  std::unique_ptr<Port> frames_;
  std::shared_ptr<TcpNetwork> network_;
  std::shared_ptr<StreamRecorder> recorder_;
  /// The doorbell, and the set of sockets.
  sys::Fd sleepers_;
  sys::Fd sockets_;
  StreamListener* listener_ = nullptr;
  Duration close_patience_ = close_patience_default;
  bool is_watching_sockets_ = false;
  Time now_{};
  Time next_capture_flush_{};

  std::unordered_map<const nic::Qp*, std::unique_ptr<Connection>> connections_;
  /// By descriptor; null where there is none.
  std::vector<Connection*> by_socket_;
  /// FPDUs were built since the last flush().
  std::vector<Connection*> unsent_;
  std::vector<Connection*> ends_;
  std::unique_ptr<std::byte[]> read_room_;

  std::shared_ptr<HandshakeCounters> handshakes_ = std::make_shared<HandshakeCounters>();
  std::uint64_t opened_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace verbena::ports
