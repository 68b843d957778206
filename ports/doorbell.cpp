#include "ports/doorbell.h"

#include <array>
#include <cerrno>

namespace verbena::ports {

Result<Doorbell, int> Doorbell::create(std::string path) {
  auto socket = sys::unix_datagram_socket();
  if (!socket) {
    return std::unexpected(socket.error());
  }
  if (const int result = sys::unlink(path); result < 0 && result != -ENOENT) {
    return std::unexpected(result);
  }
  if (const int result = sys::bind_unix(socket->get(), path); result < 0) {
    return std::unexpected(result);
  }
  struct stat status{};
  if (const int result = sys::fstat(socket->get(), status); result < 0) {
    return std::unexpected(result);
  }
  return Doorbell(std::move(path), std::move(*socket), status.st_ino);
}

namespace {

/// Injections that wait; more are forgotten.
constexpr std::size_t injections_max = 64;

}  // namespace

void Doorbell::drain() {
  // A byte more than an injection has, so that something longer is not taken for one.
  std::array<std::byte, injection_bytes + 1> datagram;
  for (;;) {
    const int bytes = sys::receive(socket_.get(), datagram);
    if (bytes < 0) {
      return;
    }
    const auto injection =
        decode_injection(ByteView(datagram).first(static_cast<std::size_t>(bytes)));
    if (injection && injections_.size() < injections_max) {
      injections_.push_back(*injection);
    }
  }
}

std::optional<Injection> Doorbell::take_injection() {
  if (injections_.empty()) {
    return std::nullopt;
  }
  const Injection injection = injections_.front();
  injections_.pop_front();
  return injection;
}

int Doorbell::send(const Injection& injection, const std::string& path) {
  const auto socket = sys::unix_datagram_socket();
  if (!socket) {
    return socket.error();
  }
  const int sent = sys::send_to(socket->get(), encode(injection), path);
  return sent < 0 ? sent : 0;
}

void Doorbell::ring(const std::string& path) const {
  constexpr std::byte ring{0};
  static_cast<void>(sys::send_to(socket_.get(), {&ring, 1}, path));
}

void Doorbell::repair() {
  struct stat status{};
  const bool sound =
      sys::fstat(socket_.get(), status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == inode_;
  if (sound) {
    return;
  }
  socket_.release();  // Whatever has this number now is not ours to close.
  if (auto fresh = create(path_)) {
    *this = std::move(*fresh);
  }
}

}  // namespace verbena::ports
