// A socket as programs see it: one of the two kinds, behind a number.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "verbs/rdma_cm/abi.h"
#include "verbs/rdma_cm/rsocket/kernel.h"
#include "verbs/rdma_cm/rsocket/patience.h"

namespace verbena::rsocket {

using rdma_cm::Errno;

class Socket;
using SocketPtr = std::shared_ptr<Socket>;

/// Where a datagram goes to or comes from; streams have none.
struct Address {
  sockaddr* address = nullptr;
  socklen_t* length = nullptr;
};

/// Any thread may call any function.
class Socket {
 public:
  Socket() = default;
  virtual ~Socket() = default;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// A descriptor that is this socket's as long as it lives: what programs call it.
  [[nodiscard]] virtual int number() const = 0;

  [[nodiscard]] virtual Errno bind(const sockaddr& address, socklen_t length) = 0;
  [[nodiscard]] virtual Errno listen(int backlog) = 0;
  [[nodiscard]] virtual Result<SocketPtr, Errno> accept() = 0;
  /// EINPROGRESS of a socket that doesn't block.
  [[nodiscard]] virtual Errno connect(const sockaddr& address, socklen_t length) = 0;
  [[nodiscard]] virtual Errno shutdown(int how) = 0;
  /// What ends with the socket, even if another thread still uses it.
  virtual void close() = 0;

  /// `flags` are those of send() and recv().
  [[nodiscard]] virtual Result<std::size_t, Errno> send(std::span<const iovec> parts, int flags,
                                                        const sockaddr* to, socklen_t length) = 0;
  [[nodiscard]] virtual Result<std::size_t, Errno> receive(std::span<const iovec> parts, int flags,
                                                           const Address& from) = 0;

  /// What poll() would say, of all events.
  [[nodiscard]] virtual short ready() = 0;
  /// Adds what to wait for, and sees to it that it becomes readable. Then ready() must be asked
  /// again before anybody waits.
  virtual void watch(std::vector<pollfd>& list) = 0;
  /// After a wait.
  virtual void look() = 0;

  [[nodiscard]] virtual Errno name(sockaddr_storage& address) = 0;
  [[nodiscard]] virtual Errno peer(sockaddr_storage& address) = 0;
  [[nodiscard]] virtual Errno set_option(int level, int option, const void* value,
                                         socklen_t length) = 0;
  [[nodiscard]] virtual Errno option(int level, int option, void* value, socklen_t& length) = 0;

  /// As riomap(), riounmap(), riowrite(); ENOTSUP of datagram sockets.
  [[nodiscard]] virtual Result<std::uint64_t, Errno> map(void* memory, std::size_t length,
                                                         bool writable, std::uint64_t offset);
  [[nodiscard]] virtual Errno unmap(const void* memory, std::size_t length);
  [[nodiscard]] virtual Result<std::size_t, Errno> write_at(std::span<const std::byte> bytes,
                                                            std::uint64_t offset, int flags);

  /// As fcntl(F_GETFL).
  [[nodiscard]] int status_flags() const { return status_flags_; }
  void set_status_flags(int flags) { status_flags_ = flags; }

 protected:
  /// MSG_DONTWAIT, O_NONBLOCK, SO_RCVTIMEO.
  [[nodiscard]] Patience patience_to_receive(int flags) const;
  /// The same with SO_SNDTIMEO.
  [[nodiscard]] Patience patience_to_send(int flags) const;
  /// SO_RCVTIMEO and SO_SNDTIMEO, which are handled here.
  [[nodiscard]] static bool is_time_limit(int level, int option);
  [[nodiscard]] Errno set_time_limit(int option, const void* value, socklen_t length);
  [[nodiscard]] Errno time_limit(int option, void* value, socklen_t& length) const;

 private:
  [[nodiscard]] Patience patience(int flags, Patience::Milliseconds limit) const;

  std::atomic<int> status_flags_ = 0;
  /// 0 is without end.
  std::atomic<Patience::Milliseconds> receive_limit_{};
  std::atomic<Patience::Milliseconds> send_limit_{};
};

/// All sockets, by their numbers. What find() returns lives as long as its caller holds it.
[[nodiscard]] SocketPtr find(int number);
void insert(SocketPtr socket);
/// nullptr if there was none.
[[nodiscard]] SocketPtr take(int number);

/// An int as setsockopt() has it.
[[nodiscard]] Errno read_int(const void* value, socklen_t length, int& number);
[[nodiscard]] Errno write_int(int number, void* value, socklen_t& length);

}  // namespace verbena::rsocket
