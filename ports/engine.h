// The engine: runs one Nic in real time (docs/ARCHITECTURE.md, "The engine: who runs the NIC").
//
// The Nic is guarded by one lock and driven from two sides. A thread that polls or posts runs it
// inline when the lock is free; a background thread runs it when nobody else does, asleep until a
// doorbell or a timer. It keeps out of the way of an application that spins on its CQs, and takes
// over within a millisecond when that stops (engine_loop.h says how).
//
// Fork and exit. In a child of fork() an engine is dead: is_dead() tells, commands have no effect
// outside of the child, try_progress() does nothing. When the process exits with the device
// open, the capture is written out and the fabric left; what is posted then goes nowhere.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/time.h"
#include "nic_model/nic.h"
#include "ports/device_config.h"
#include "ports/fabric.h"
#include "ports/port.h"

namespace verbena::ports {

class TcpPort;

/// Hears what the Nic has to say. Called with the engine's lock held: be brief, and call nothing
/// of the engine.
class EngineListener {
 public:
  virtual ~EngineListener() = default;
  virtual void on_async_event(const nic::AsyncEvent& event) = 0;
  /// The armed notification of `cq` fired.
  virtual void on_cq_notification(nic::Cq& cq) = 0;
};

class Engine {
 public:
  /// Opens the device: joins the fabric, starts the background thread. The error is a sentence that
  /// says what to do. `listener` must outlive the engine.
  [[nodiscard]] static Result<std::unique_ptr<Engine>, std::string> open(const DeviceConfig& config,
                                                                         EngineListener& listener);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Runs `command(nic, now)` under the lock, then lets the effects out (frames, events), and
  /// returns what the command returned. This is how every command reaches the Nic.
  template <class Command>
  auto with_nic(Command&& command) {
    const std::lock_guard guard(*this);
    settle_locked();
    return run(std::forward<Command>(command), &Engine::finish_command);
  }
  /// The same for commands that only post work to a send queue or a receive queue: answers that
  /// wait for a reply of the application leave together with it (answer_patience.h).
  template <class Command>
  auto post_send(Command&& command) {
    const std::lock_guard guard(*this);
    return run(std::forward<Command>(command), &Engine::finish_post_send);
  }
  template <class Command>
  auto post_recv(Command&& command) {
    const std::lock_guard guard(*this);
    return run(std::forward<Command>(command), &Engine::finish_post_recv);
  }

  /// Creates a queue pair; takes another block of QPNs from the fabric when the Nic has none left.
  [[nodiscard]] Result<nic::Qp*, nic::NicError> create_qp(nic::Pd& pd, const nic::QpInitAttr& attr);

  /// Destroys a queue pair; a connection that it has on an iWARP device ends.
  [[nodiscard]] Result<void, nic::NicError> destroy_qp(nic::Qp& qp);

  /// Under the lock: the connections of an iWARP device; nullptr if it is none, or when the process
  /// is about to end.
  [[nodiscard]] TcpPort* streams();

  /// Runs the NIC once if the lock is free: receive, timers, transmit, events. For threads that
  /// poll an empty CQ. True if it ran.
  bool try_progress();

  /// Under the lock: counters of the port that the Nic knows nothing of.
  [[nodiscard]] PortStatistics port_statistics();

  /// Runs `command(fabric)` under the lock. nullopt if the fabric has been left, at the end of the
  /// process.
  template <class Command>
  auto with_fabric(Command&& command) {
    const std::lock_guard guard(*this);
    using Outcome = std::optional<decltype(command(*fabric()))>;
    Fabric* joined = fabric();
    return joined != nullptr ? Outcome(std::forward<Command>(command)(*joined)) : std::nullopt;
  }

  /// Reading only: profile, configuration, GID table never change while open.
  [[nodiscard]] const nic::Nic& peek() const;
  [[nodiscard]] nic::Nic& nic();
  /// CLOCK_MONOTONIC.
  [[nodiscard]] static Time now();

  /// True in a child after fork(): the engine is dead there, commands must not be used.
  [[nodiscard]] bool is_dead() const;

  // BasicLockable, for with_nic(); a short spin, then a sleep.
  void lock();
  void unlock();

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  template <class Command>
  auto run(Command&& command, void (Engine::*finish)(Time)) {
    struct Effects {
      Engine& engine;
      Time time;
      void (Engine::*finish)(Time);
      ~Effects() { (engine.*finish)(time); }
    } effects{*this, now(), finish};
    return std::forward<Command>(command)(nic(), effects.time);
  }
  void settle_locked();
  void finish_command(Time now);
  void finish_post_send(Time now);
  void finish_post_recv(Time now);
  [[nodiscard]] Fabric* fabric();
  std::unique_ptr<Impl> impl_;
};

}  // namespace verbena::ports
