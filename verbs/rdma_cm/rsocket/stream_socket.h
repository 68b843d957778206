// A stream socket: what it is before, while and after it has a stream.
//
//   fresh ─bind─▶ bound ─listen─▶ listening ··· established connections wait to be accepted
//     └─────────────┴──connect──▶ connecting ──▶ connected
//                                     └──▶ failed
//
// Programs expect that connections are made while they do something else, as a kernel would: so
// one thread looks after all sockets that listen.
#pragma once

#include <deque>
#include <memory>
#include <mutex>

#include "verbs/event_fd.h"
#include "verbs/rdma_cm/rsocket/socket.h"
#include "verbs/rdma_cm/rsocket/stream.h"

namespace verbena::rsocket {

class StreamSocket final : public Socket, public std::enable_shared_from_this<StreamSocket> {
 public:
  [[nodiscard]] static Result<SocketPtr, Errno> create(int domain);
  ~StreamSocket() override;

  [[nodiscard]] int number() const override { return number_ >= 0 ? number_ : channel_->fd; }
  [[nodiscard]] Errno bind(const sockaddr& address, socklen_t length) override;
  [[nodiscard]] Errno listen(int backlog) override;
  [[nodiscard]] Result<SocketPtr, Errno> accept() override;
  [[nodiscard]] Errno connect(const sockaddr& address, socklen_t length) override;
  [[nodiscard]] Errno shutdown(int how) override;
  void close() override;
  [[nodiscard]] Result<std::size_t, Errno> send(std::span<const iovec> parts, int flags,
                                                const sockaddr* to, socklen_t length) override;
  [[nodiscard]] Result<std::size_t, Errno> receive(std::span<const iovec> parts, int flags,
                                                   const Address& from) override;
  [[nodiscard]] short ready() override;
  void watch(std::vector<pollfd>& list) override;
  void look() override;
  [[nodiscard]] Errno name(sockaddr_storage& address) override;
  [[nodiscard]] Errno peer(sockaddr_storage& address) override;
  [[nodiscard]] Errno set_option(int level, int option, const void* value,
                                 socklen_t length) override;
  [[nodiscard]] Errno option(int level, int option, void* value, socklen_t& length) override;
  [[nodiscard]] Result<std::uint64_t, Errno> map(void* memory, std::size_t length, bool writable,
                                                 std::uint64_t offset) override;
  [[nodiscard]] Errno unmap(const void* memory, std::size_t length) override;
  [[nodiscard]] Result<std::size_t, Errno> write_at(std::span<const std::byte> bytes,
                                                    std::uint64_t offset, int flags) override;

  /// For the thread of keepalives. False if the socket sends none any more.
  [[nodiscard]] bool send_keep_alive();

  // Of a socket that listens, for the thread that looks after it.

  [[nodiscard]] int requests_fd() const { return channel_->fd; }
  void take_requests();

 private:
  enum class State { fresh, bound, listening, connecting, connected, failed, closed };

  StreamSocket() = default;
  [[nodiscard]] Errno open_channel();
  /// Takes what came for a socket that connects one step on.
  void advance();
  void on_event(const rdma_cm_event& event);
  [[nodiscard]] Errno start_connection();
  void fail(Errno error);
  /// Advances until connected; with the error that ended it, EINPROGRESS or EAGAIN.
  [[nodiscard]] Errno wait_until_connected(const Patience& patience);
  /// The stream, or why there is none.
  [[nodiscard]] Result<std::shared_ptr<Stream>, Errno> connected_stream(const Patience& patience);
  /// Begins with keepalives if they are wanted, and the connection is there.
  void start_keep_alive();

  void on_request(rdma_cm_id& id, const rdma_conn_param& param);
  void on_established(rdma_cm_id& id);

  [[nodiscard]] Errno set_socket_option(int option, const void* value, socklen_t length);
  [[nodiscard]] Errno set_rdma_option(int option, int number);

  std::mutex mutex_;
  State state_ = State::fresh;
  Errno error_ = 0;
  rdma_event_channel* channel_ = nullptr;
  /// Of a socket that was accepted: a descriptor as new as the program's call, as the kernel's are.
  /// librspreload relies on it that our numbers are above its own of the same socket.
  int number_ = -1;
  rdma_cm_id* id_ = nullptr;
  std::shared_ptr<Stream> stream_;
  /// What a connection that we accepted will begin with.
  ConnectData theirs_;

  StreamSizes sizes_;
  bool reuse_address_ = false;
  bool keep_alive_ = false;
  bool no_delay_ = false;
  bool v6_only_ = false;
  bool out_of_band_inline_ = false;
  int keep_alive_idle_s_ = 7200;

  // Of a socket that listens: connections to come, and those to be accepted, one token for each.
  std::vector<std::shared_ptr<StreamSocket>> coming_;
  std::deque<std::shared_ptr<StreamSocket>> accepted_;
  std::unique_ptr<verbs::EventFd> tokens_;
};

}  // namespace verbena::rsocket
