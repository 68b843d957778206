#include "ports/doorbell.h"

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

void Doorbell::drain() {
  while (sys::receive_and_discard(socket_.get()) >= 0) {
  }
}

void Doorbell::ring(const std::string& path) const {
  static_cast<void>(sys::send_byte_to(socket_.get(), path));
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
