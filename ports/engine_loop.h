// The inside of an engine: one Nic, one port, one background thread, and the rules by which that
// thread and the application's threads share the work.
//
//            prepare_sleep()                       the application spins
//   running ────────────────▶ asleep   ─────────────────────────────────▶ watching
//      ▲  ◀──────────────────   │ doorbell, timer, kick                      │
//      │                        ▼                                            │
//      └───────────────◀─────── ◀───── no more spinning for polling_grace ◀──┘
//
// running   The thread receives, sends and serves timers in batches, and lets others in between.
// asleep    The port's senders ring the doorbell. Whoever makes something due earlier than the
//           thread means to wake kicks it. Commands and single polls run inline beside it.
// watching  The application polls in a tight loop and so runs the NIC itself: senders need not
// ring,
//           and the thread wakes once per polling_grace only to see whether that is still so.
//
// All of it is under the lock but where noted.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "nic_model/nic.h"
#include "ports/answer_patience.h"
#include "ports/device_log.h"
#include "ports/engine.h"
#include "ports/engine_lock.h"
#include "ports/fabric.h"
#include "ports/port.h"
#include "ports/process_hooks.h"
#include "ports/stats_publisher.h"
#include "ports/tcp_port.h"

namespace verbena::ports {

class EngineLoop final : public FrameHandler, public ProcessHook {
 public:
  /// `port` goes through `fabric`, which it owns. `streams` is the port of an iWARP device, or
  /// nullptr.
  EngineLoop(const DeviceConfig& config, EngineListener& listener, std::unique_ptr<Port> port,
             TcpPort* streams, Fabric& fabric);
  ~EngineLoop() override;

  /// Starts the background thread. The error is an errno.
  [[nodiscard]] Result<void, int> start();
  /// Any thread, without the lock.
  [[nodiscard]] bool is_dead() const { return dead_; }
  /// Without the lock: takes it if it is free.
  bool try_progress();
  /// Before a command that is not a post: lets out what is held back.
  void settle();
  /// After a command: lets its effects out.
  void run_effects() { run_effects(Order::send_only); }
  /// After posts: the same, but what is held back waits for a send request.
  void after_post_send(Time now);
  void after_post_recv();
  /// Gives the Nic another block of QPNs; false if the fabric has none left.
  bool add_qpn_block();

  [[nodiscard]] EngineLock& lock() { return lock_; }
  [[nodiscard]] nic::Nic& nic() { return nic_; }
  /// nullptr when it was left.
  [[nodiscard]] Fabric* fabric() { return fabric_; }
  [[nodiscard]] const Port& port() const { return *port_; }
  /// nullptr for a device of frames, and when the fabric was left.
  [[nodiscard]] TcpPort* streams() { return streams_; }

  RxVerdict on_frame(ByteView frame) override { return take_frame(frame, false); }
  RxVerdict on_proved_frame(ByteView frame) override { return take_frame(frame, true); }

  void before_fork() override;
  void after_fork_in_parent() override;
  void after_fork_in_child() override;
  void at_exit() override;

 private:
  enum class Mode : std::uint8_t { running, asleep, watching };

  struct Batch {
    /// Frames, and pieces of streams.
    std::uint32_t received = 0;
    /// Of them those that may have to be acknowledged: frames.
    std::uint32_t frames = 0;
    /// There is more to do at once.
    bool more = false;
  };
  enum class Order : std::uint8_t {
    send_only,
    /// The same, with answers that were held back behind the request that they waited for.
    send_held,
    receive_then_send,
    /// The answers to what is received wait for the next batch (answer_patience.h).
    send_then_receive,
  };
  RxVerdict take_frame(ByteView frame, bool icrc_is_proved) {
    const RxVerdict verdict = nic_.on_frame(now_, frame, icrc_is_proved);
    if (tells_verdicts_) {
      log_.on_verdict(frame, verdict);
    }
    return verdict;
  }
  void run_effects(Order order);
  /// Receives, serves timers, sends, tells events.
  Batch run_batch(Order order);
  /// Counts what it received into `batch`.
  void receive(Batch& batch);
  nic::TransmitStatus transmit(Order order);
  /// Those that somebody outside asked for.
  void inject_failures();
  [[nodiscard]] bool holds_answers() const;
  void deliver_events();
  void publish_statistics();
  /// When the Nic or the port has something to do by itself.
  [[nodiscard]] Time next_deadline() const;
  /// Wakes the thread if it means to sleep longer than until the next deadline.
  void kick_if_due(bool more);

  static void* thread_entry(void* self);
  void thread_main();
  /// Receives and sends for the thread, and gives the application a moment to reply first.
  Batch run_thread_batch();
  /// The thread's side of each mode.
  void serve();
  void go_to_sleep();
  void watch();
  /// Unlocks, sleeps until a doorbell or for `timeout`, and locks again.
  void sleep_unlocked(std::optional<Duration> timeout);
  void note_poll(Time time);
  void start_running();
  /// The thread took over from a spinning application; `frames_waited` tells whether too late.
  void learn(bool frames_waited);
  /// Without the lock: tells the thread to end, if it gets the lock within `limit`, and waits until
  /// it has. False if it goes on.
  bool stop_thread(Duration limit);

  EngineLock lock_;
  EngineListener& listener_;
  /// Outlives the Nic, which it hears.
  DeviceLog log_;
  const bool tells_verdicts_;
  std::unique_ptr<Port> port_;
  TcpPort* streams_;
  /// nullptr when the fabric was left.
  Fabric* fabric_;
  nic::Nic nic_;
  /// Time of the batch that runs.
  Time now_{};

  StatsPublisher statistics_;
  /// Something happened since the last snapshot.
  bool is_unpublished_ = true;
  Time next_publishing_{};

  Mode mode_ = Mode::running;
  /// asleep: when the thread means to wake by itself.
  Time wake_time_ = Time::min();
  /// Polls in a row, each soon after the one before: counted one by one while asleep, by the window
  /// while running.
  std::uint64_t poll_streak_ = 0;
  std::uint64_t poll_streak_wanted_;
  Time last_poll_{};
  /// Polls in a row that found nothing to do.
  std::uint32_t idle_polls_ = 0;
  /// running: beginning of the window in which polls are counted.
  Time window_start_{};
  std::uint64_t window_polls_ = 0;
  /// Attempts to poll, those that found the lock taken included. Changed without the lock; a lost
  /// increment does no harm.
  std::atomic<std::uint64_t> polls_{0};

  /// watching: how long the thread sleeps.
  Duration polling_grace_;
  /// After frames that a poll received, and after those that the thread received.
  AnswerPatience poll_patience_;
  AnswerPatience thread_patience_;

  bool stop_ = false;
  std::optional<pthread_t> thread_;
  /// Futex: 1 when the thread has ended.
  std::atomic<std::uint32_t> thread_ended_{0};
  bool locked_for_fork_ = false;
  /// Changes only in a child, where there is one thread.
  bool dead_ = false;
};

}  // namespace verbena::ports
