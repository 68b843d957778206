// Waits for sockets and for times, in one thread of its own: Boost.Asio, which is behind this wall
// because it takes seconds to compile. The sockets belong to others, and so do the system calls on
// them (sys_tcp.h); only the waiting is done here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace verbena::ports {

class Reactor {
 public:
  /// Called by the reactor's thread. It may come once more after the waiting was given up: so it
  /// looks what there is to do.
  using Handler = std::function<void()>;

  /// Waits for one socket, and for a deadline. Not thread-safe: its owner serialises the calls.
  class Waiter {
   public:
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    /// Gives up all waiting; the socket stays open.
    ~Waiter();

    // Each calls the handler once.
    void await_input();
    void await_room();
    /// Replaces the deadline that was.
    void await_time(Duration from_now);
    void forget_time();

   private:
    friend class Reactor;
    struct Impl;
    explicit Waiter(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
  };

  /// Starts the thread; `name` has at most 15 letters. The error is a sentence.
  [[nodiscard]] static Result<std::unique_ptr<Reactor>, std::string> open(const char* name);
  /// Outlived by no waiter; stop() comes before. Not in a child of fork(): there it is leaked.
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Ends the thread: when it returns, no handler runs any more.
  void stop();
  /// For `socket`, which stays open as long as the waiter lives. The error is an errno value.
  [[nodiscard]] Result<std::unique_ptr<Waiter>, int> watch(int socket, Handler handler);
  /// Any thread: has the reactor's thread call `handler`.
  void post(Handler handler);

 private:
  struct Impl;
  explicit Reactor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace verbena::ports
