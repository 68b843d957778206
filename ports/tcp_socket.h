// A TCP socket, whosever TCP it is: what an iWARP device needs of one, from bind() to the last
// byte. There are two: the operating system's (kernel_socket.h), and that of a device on a link,
// whose TCP is our own (own_tcp.h).
//
// Its calls are those of socket(7), with a value or -errno as the result. None of them waits: who
// has to wait does so on a descriptor.
#pragma once

#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "ports/socket_address.h"

namespace verbena::ports {

class TcpSocket {
 public:
  TcpSocket() = default;
  TcpSocket(const TcpSocket&) = delete;
  TcpSocket& operator=(const TcpSocket&) = delete;
  /// What was sent is still delivered, then FIN; or a reset after reset_on_close().
  virtual ~TcpSocket() = default;

  /// Others that say so, too, may bind the same as long as nobody listens (SO_REUSEADDR).
  virtual int set_reuse(bool value) = 0;
  /// Port 0: an ephemeral one.
  virtual int bind(const SocketAddress& address) = 0;
  virtual int listen(int backlog) = 0;
  /// -EAGAIN: nobody has come.
  virtual Result<std::unique_ptr<TcpSocket>, int> accept() = 0;
  /// 0, or -EINPROGRESS: it is done, or has failed, when there is room. After a refusal it may be
  /// tried again.
  virtual int connect(const SocketAddress& address) = 0;
  /// What became of a connection attempt: 0 or -errno. Asked once.
  virtual int take_error() = 0;

  [[nodiscard]] virtual SocketAddress local() const = 0;
  /// Of no family while there is no connection.
  [[nodiscard]] virtual SocketAddress remote() const = 0;
  /// What a segment carries, in bytes; -errno if that isn't known.
  [[nodiscard]] virtual int segment_bytes() const = 0;

  /// Of a socket that keeps_units(): all of it or nothing.
  virtual int send(ByteView bytes) = 0;
  /// What one send() was given begins a segment, and lies whole in one if one can hold it. Else
  /// TCP cuts as it likes.
  [[nodiscard]] virtual bool keeps_units() const { return false; }
  /// 0: the peer has ended.
  virtual int receive(MutableBytes room) = 0;
  /// Nothing more is sent: what was, and then FIN.
  virtual int end_sending() = 0;
  /// The connection is reset when the socket goes, whatever is under way.
  virtual void reset_on_close() = 0;

  /// What is waited on: readable when there is something to receive or to accept.
  [[nodiscard]] virtual int fd() const = 0;
  /// Of epoll(7): what the descriptor is when there is room to send, or a connection attempt is
  /// over.
  [[nodiscard]] virtual std::uint32_t room_event() const = 0;

  /// In the child of a fork(): gives back the descriptor, and does nothing else; the object is
  /// leaked.
  virtual void abandon() = 0;
};

/// Whose TCP it is. Any thread.
class TcpNetwork {
 public:
  virtual ~TcpNetwork() = default;
  /// AF_INET or AF_INET6; one of IPv6 takes no IPv4.
  [[nodiscard]] virtual Result<std::unique_ptr<TcpSocket>, int> socket(int family) = 0;
  /// Sockets have something to send that only the engine can: its owner runs a batch.
  [[nodiscard]] virtual bool waits_for_engine() = 0;
  /// What sockets have sent arrives without us, or has: the process may end.
  [[nodiscard]] virtual bool has_delivered() = 0;
};

}  // namespace verbena::ports
