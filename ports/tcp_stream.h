// The bytes of one iWARP connection: a TCP socket (of the operating system, or our own), and the
// room in which FPDUs are built before they leave together.
//
//   StreamQp ── reserve(), commit() ──► │ FPDU │ FPDU │ FPDU │ ── flush(): one send() ──► socket
//
// Each FPDU is built where it is sent from. The socket takes as many bytes as its send buffer has
// room for; the rest waits, and so does the queue pair when the room here is used up as well. A
// socket that keeps units gets one FPDU after the other, so that each lies whole in a segment
// (RFC 5044, 5: FPDU alignment); then only one waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "ports/stream_capture.h"
#include "ports/tcp_socket.h"
#include "proto/iwarp/mpa.h"
#include "proto/iwarp/stream_sink.h"

namespace verbena::ports {

class TcpStream final : public iwarp::StreamSink {
 public:
  /// What is sent at once at most.
  static constexpr std::size_t room_bytes = std::size_t{256} << 10;
  static_assert(room_bytes >= iwarp::fpdu_stream_bytes_max);

  /// `socket` is connected. `capture` may be null.
  TcpStream(std::unique_ptr<TcpSocket> socket, std::unique_ptr<StreamCapture> capture);

  // iwarp::StreamSink.
  MutableBytes reserve(std::size_t bytes) override;
  void commit() override;

  /// Sends what was built, as far as the kernel takes it; nothing while is_blocked().
  void flush();
  /// The kernel has room again, or may have.
  void unblock() {
    is_blocked_ = false;
    flush();
  }
  /// Something waits until the kernel has room.
  [[nodiscard]] bool is_blocked() const { return is_blocked_; }
  [[nodiscard]] bool has_unsent() const { return begin_ != end_; }

  /// What came, at most as much as `room` holds; 0 bytes when nothing came or ever will. See
  /// peer_has_ended() and is_lost().
  [[nodiscard]] std::size_t receive(MutableBytes room);
  [[nodiscard]] bool peer_has_ended() const { return peer_has_ended_; }

  /// Nothing more is sent: FIN. Everything was flushed.
  void end();
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  /// The connection is gone: the peer reset it, or the kernel gave up.
  [[nodiscard]] bool is_lost() const { return is_lost_; }
  /// Something is wrong with the socket, the kernel says.
  void note_error();
  /// Resets the connection, unless it is lost already.
  void reset();

  [[nodiscard]] int fd() const { return socket_->fd(); }
  /// See TcpSocket.
  [[nodiscard]] std::uint32_t room_event() const { return socket_->room_event(); }
  /// In the child of a fork().
  void abandon() { socket_->abandon(); }

 private:
  std::unique_ptr<TcpSocket> socket_;
  std::unique_ptr<StreamCapture> capture_;
  /// [begin_, end_) waits to be sent.
  std::unique_ptr<std::byte[]> room_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t reserved_ = 0;
  bool is_blocked_ = false;
  bool has_ended_ = false;
  bool peer_has_ended_ = false;
  bool is_lost_ = false;
};

}  // namespace verbena::ports
