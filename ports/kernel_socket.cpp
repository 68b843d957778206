#include "ports/kernel_socket.h"

#include <utility>

#include "ports/sys_net.h"
#include "ports/sys_tcp.h"

namespace verbena::ports {

KernelSocket::KernelSocket(sys::Fd socket) : socket_(std::move(socket)) {
  static_cast<void>(sys::send_at_once(socket_.get()));
}

int KernelSocket::set_reuse(bool value) { return sys::set_reuse(socket_.get(), value); }

int KernelSocket::bind(const SocketAddress& address) {
  return sys::bind_to(socket_.get(), address);
}

int KernelSocket::listen(int backlog) { return sys::listen(socket_.get(), backlog); }

Result<std::unique_ptr<TcpSocket>, int> KernelSocket::accept() {
  auto socket = sys::accept(socket_.get());
  if (!socket) {
    return std::unexpected(socket.error());
  }
  return std::make_unique<KernelSocket>(std::move(*socket));
}

int KernelSocket::connect(const SocketAddress& address) {
  return sys::connect_to(socket_.get(), address);
}

int KernelSocket::take_error() { return sys::take_error(socket_.get()); }

SocketAddress KernelSocket::local() const { return sys::local_address(socket_.get()); }

SocketAddress KernelSocket::remote() const { return sys::remote_address(socket_.get()); }

int KernelSocket::segment_bytes() const { return sys::segment_bytes(socket_.get()); }

int KernelSocket::send(ByteView bytes) { return sys::send(socket_.get(), bytes); }

int KernelSocket::receive(MutableBytes room) { return sys::receive(socket_.get(), room); }

int KernelSocket::end_sending() { return sys::end_sending(socket_.get()); }

void KernelSocket::reset_on_close() { static_cast<void>(sys::reset_on_close(socket_.get())); }

std::uint32_t KernelSocket::room_event() const { return EPOLLOUT; }

Result<std::unique_ptr<TcpSocket>, int> KernelTcp::socket(int family) {
  auto socket = sys::tcp_socket(family);
  if (!socket) {
    return std::unexpected(socket.error());
  }
  return std::make_unique<KernelSocket>(std::move(*socket));
}

}  // namespace verbena::ports
