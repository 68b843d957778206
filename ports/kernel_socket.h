// TCP sockets of the operating system (sys_tcp.h).
#pragma once

#include <memory>

#include "ports/sys.h"
#include "ports/tcp_socket.h"

namespace verbena::ports {

class KernelSocket final : public TcpSocket {
 public:
  /// Made by sys::tcp_socket(), or accepted.
  explicit KernelSocket(sys::Fd socket);

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
  int receive(MutableBytes room) override;
  int end_sending() override;
  void reset_on_close() override;
  [[nodiscard]] int fd() const override { return socket_.get(); }
  [[nodiscard]] std::uint32_t room_event() const override;
  void abandon() override { socket_.reset(); }

 private:
  sys::Fd socket_;
};

class KernelTcp final : public TcpNetwork {
 public:
  [[nodiscard]] Result<std::unique_ptr<TcpSocket>, int> socket(int family) override;
  [[nodiscard]] bool waits_for_engine() override { return false; }
  [[nodiscard]] bool has_delivered() override { return true; }
};

}  // namespace verbena::ports
