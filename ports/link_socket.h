// What the links by UNIX sockets share: a socket that knows whether its descriptor is still its
// own, a socket file that is ours to remove, and a lock that goes with its process.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ports/sys.h"

namespace verbena::ports {

/// A socket whose descriptor the program may have closed, and have given to something else.
class LinkSocket {
 public:
  LinkSocket() = default;
  explicit LinkSocket(sys::Fd fd);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(fd_); }
  /// It is still what it was; true if there is none.
  [[nodiscard]] bool is_intact() const;
  /// Closes it, or leaves to its new owner what isn't ours any more.
  void reset();

 private:
  sys::Fd fd_;
  ino_t inode_ = 0;
};

/// The file that bind() made.
class SocketFile {
 public:
  SocketFile() = default;
  explicit SocketFile(std::string path);
  SocketFile(SocketFile&& other) noexcept;
  SocketFile& operator=(SocketFile&& other) noexcept;
  ~SocketFile() { remove(); }

  /// It is there, and nobody has put another in its place.
  [[nodiscard]] bool is_there() const;
  /// Removes it, if it is still ours.
  void remove();
  /// Leaves it where it is.
  void forget() { path_.clear(); }

 private:
  std::string path_;
  ino_t inode_ = 0;
};

/// Removes a socket file that a dead process left; true if there is nothing in the way any more.
[[nodiscard]] bool remove_stale_socket(const std::string& path);

/// Holds a name that is derived from `what`, as one process of this user can; nullopt while another
/// does.
[[nodiscard]] std::optional<LinkSocket> take_link_lock(std::string_view what);

}  // namespace verbena::ports
