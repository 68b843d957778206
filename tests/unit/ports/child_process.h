// Children of a test: run a body, tell the parent how far they are, die.
#pragma once

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace verbena::ports::test {

/// Runs `body` in a child.
template <class Body>
[[nodiscard]] pid_t in_child(Body body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    _exit(body());
  }
  return child;
}

inline int exit_status_of(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

/// Until somebody kills this process.
[[noreturn]] inline void wait_for_ever() {
  for (;;) {
    pause();
  }
}

inline void kill_and_reap(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

/// A pipe by which a child tells its parent how far it is.
class Rendezvous {
 public:
  Rendezvous() { REQUIRE(pipe(fds_) == 0); }
  ~Rendezvous() {
    close(fds_[0]);
    close(fds_[1]);
  }
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  template <class T>
  void tell_parent(T value) const {
    REQUIRE(write(fds_[1], &value, sizeof(value)) == sizeof(value));
  }
  template <class T>
  T hear_child() const {
    T value{};
    REQUIRE(read(fds_[0], &value, sizeof(value)) == sizeof(value));
    return value;
  }

 private:
  int fds_[2]{};
};

}  // namespace verbena::ports::test
