#include "ports/link_socket.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/fnv.h"
#include "ports/sys_net.h"

namespace verbena::ports {

namespace {

/// 0 if there is no such socket file.
ino_t inode_of_socket(const std::string& path) {
  struct stat status{};
  return sys::lstat(path, status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

}  // namespace

LinkSocket::LinkSocket(sys::Fd fd) : fd_(std::move(fd)), inode_(sys::socket_inode(fd_.get())) {}

bool LinkSocket::is_intact() const { return !fd_ || sys::socket_inode(fd_.get()) == inode_; }

void LinkSocket::reset() {
  if (!is_intact()) {
    fd_.release();
  }
  fd_.reset();
}

SocketFile::SocketFile(std::string path) : path_(std::move(path)), inode_(inode_of_socket(path_)) {}

SocketFile::SocketFile(SocketFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), inode_(other.inode_) {}

SocketFile& SocketFile::operator=(SocketFile&& other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::exchange(other.path_, {});
    inode_ = other.inode_;
  }
  return *this;
}

bool SocketFile::is_there() const { return !path_.empty() && inode_of_socket(path_) == inode_; }

void SocketFile::remove() {
  if (is_there()) {
    static_cast<void>(sys::unlink(path_));
  }
  path_.clear();
}

bool remove_stale_socket(const std::string& path) {
  struct stat status{};
  if (const int result = sys::lstat(path, status); result < 0) {
    return result == -ENOENT;
  }
  return S_ISSOCK(status.st_mode) && sys::unlink(path) == 0;
}

std::optional<LinkSocket> take_link_lock(std::string_view what) {
  auto socket = sys::unix_datagram_socket();
  const std::string name =
      fmt::format("verbena-link-{}-{:016x}", sys::effective_user_id(), fnv1a(what));
  if (!socket || sys::bind_unix_abstract(socket->get(), name) < 0) {
    return std::nullopt;
  }
  return LinkSocket(std::move(*socket));
}

}  // namespace verbena::ports
