// A doorbell: a datagram socket with a name in the fabric's directory. It wakes a thread that
// sleeps in poll(), from any process of the same user.
#pragma once

#include <sys/types.h>

#include <deque>
#include <optional>
#include <string>

#include "base/result.h"
#include "ports/injection.h"
#include "ports/sys.h"

namespace verbena::ports {

class Doorbell {
 public:
  /// Binds a new socket to `path`, in the place of one that a dead process left there. The error
  /// is -errno.
  [[nodiscard]] static Result<Doorbell, int> create(std::string path);

  /// Readable when somebody rang.
  [[nodiscard]] int fd() const { return socket_.get(); }
  /// Forgets all ringing so far, and keeps the injections that came with it.
  void drain();
  /// The oldest injection that came.
  [[nodiscard]] std::optional<Injection> take_injection();
  /// Sends an injection to the doorbell at `path`, from no doorbell. The result is 0 or -errno.
  [[nodiscard]] static int send(const Injection& injection, const std::string& path);
  /// Rings the doorbell at `path`. One that is full or gone is no error: its owner is awake or
  /// dead.
  void ring(const std::string& path) const;
  /// Rings this one.
  void ring_self() const { ring(path_); }

  /// A program may close all descriptors that it does not know, for example to become a daemon, and
  /// open others under the same numbers. Called before each sleep: notices and makes a new socket,
  /// so that we never read from a descriptor of the program.
  void repair();

  /// Closes the socket; its name stays.
  void close() { socket_.reset(); }

 private:
  Doorbell(std::string path, sys::Fd socket, ino_t inode)
      : path_(std::move(path)), socket_(std::move(socket)), inode_(inode) {}

  std::string path_;
  sys::Fd socket_;
  ino_t inode_ = 0;
  std::deque<Injection> injections_;
};

}  // namespace verbena::ports
