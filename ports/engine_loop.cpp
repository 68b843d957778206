#include "ports/engine_loop.h"

#include <csignal>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>

#include "ports/sys.h"

namespace verbena::ports {

namespace {

using namespace std::chrono_literals;

/// Frames received and frames sent in one batch.
constexpr std::uint32_t batch_frames_max = 64;
/// Batches that a command sends before it returns. The rest is sent by polls or by the thread.
constexpr int command_batches_max = 4;
/// For so long nobody runs the NIC after an application stopped spinning.
constexpr Duration polling_grace = 1ms;
/// An application spins when it polls this often in a row, each time this soon after the last; the
/// longer streak is wanted of one that was trusted too early.
constexpr std::uint64_t streak_wanted_min = 64;
constexpr std::uint64_t streak_wanted_max = 1U << 20;
constexpr Duration spinning_gap_max = 10us;
/// The same as the thread sees it: this many polls in each such window.
constexpr Duration spinning_window = 100us;
constexpr std::uint64_t spinning_window_polls = 20;
/// An application that has polled in vain so often gives its processor away now and then: the peer
/// that it waits for may need it.
constexpr std::uint32_t idle_polls_before_yield = 1024;
constexpr std::uint32_t idle_polls_between_yields = 64;
/// The thread works for microseconds and should do so at once, also where spinning programs occupy
/// all processors. The shortest slice that Linux allows.
constexpr Duration thread_slice = 100us;
/// fork() and exit() don't wait longer for a lock whose holder may never come back: the thread that
/// holds it may be the one that forks or exits, in a signal handler.
constexpr Duration hook_patience = 200ms;

/// A port without a network, for what comes after exit().
class NullPort final : public Port {
 public:
  MutableBytes reserve(const FrameRoute& /*route*/, std::size_t bytes) override {
    return MutableBytes(frame_).first(std::min(bytes, frame_.size()));
  }
  void commit(const PacketNote& /*note*/) override { ++statistics_.frames_lost; }
  std::uint32_t poll_receive(FrameHandler& /*handler*/, std::uint32_t /*frames_max*/) override {
    return 0;
  }
  void flush() override {}
  bool prepare_sleep() override { return true; }
  void finish_sleep() override {}
  [[nodiscard]] int fd() const override { return -1; }
  void wake() override {}
  void begin_batch(Time /*now*/) override {}
  [[nodiscard]] PortStatistics statistics() const override { return statistics_; }
  void abandon() override {}

 private:
  std::array<std::byte, frame_bytes_max> frame_{};
  PortStatistics statistics_;
};

}  // namespace

EngineLoop::EngineLoop(const DeviceConfig& config, EngineListener& listener,
                       std::unique_ptr<Port> port, Fabric& fabric)
    : listener_(listener),
      port_(std::move(port)),
      fabric_(&fabric),
      nic_(config.profile, nic_config(config), sys::random_bits()),
      poll_streak_wanted_(streak_wanted_min) {
  add_process_hook(*this);
}

EngineLoop::~EngineLoop() {
  remove_process_hook(*this);
  if (thread_) {
    // The thread holds the lock for a batch at most, so it ends for certain.
    while (!stop_thread(1s)) {
    }
    pthread_join(*thread_, nullptr);
  }
}

Result<void, int> EngineLoop::start() {
  // Signals are for the program's own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int error = pthread_create(&thread, nullptr, &EngineLoop::thread_entry, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    return std::unexpected(error);
  }
  pthread_setname_np(thread, "verbena");
  thread_ = thread;
  return {};
}

EngineLoop::Batch EngineLoop::run_batch(bool receive) {
  now_ = Engine::now();
  port_->begin_batch(now_);
  const std::uint32_t received = receive ? port_->poll_receive(*this, batch_frames_max) : 0;
  if (nic_.next_timeout() <= now_) {
    nic_.on_timer(now_);
  }
  const auto status = nic_.poll_transmit(now_, *port_, batch_frames_max);
  port_->flush();
  deliver_events();
  return {.received = received,
          .more = received == batch_frames_max || status == nic::TransmitStatus::more};
}

void EngineLoop::deliver_events() {
  while (const auto event = nic_.poll_event()) {
    listener_.on_async_event(*event);
  }
  while (nic::Cq* cq = nic_.poll_cq_notification()) {
    listener_.on_cq_notification(*cq);
  }
}

Time EngineLoop::next_deadline() const {
  return std::min(nic_.next_timeout(), port_->next_deadline());
}

void EngineLoop::run_effects() {
  if (dead_) {
    return;
  }
  bool more = true;
  for (int batch = 0; more && batch < command_batches_max; ++batch) {
    more = run_batch(false).more;
  }
  kick_if_due(more);
}

void EngineLoop::kick_if_due(bool more) {
  if (mode_ == Mode::asleep && (more || next_deadline() < wake_time_)) {
    wake_time_ = Time::min();
    port_->wake();
  }
}

bool EngineLoop::try_progress() {
  polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (dead_ || !lock_.try_lock()) {
    return false;
  }
  bool yield = false;
  {
    const std::lock_guard guard(lock_, std::adopt_lock);
    const Batch batch = run_batch(true);
    note_poll(now_);
    kick_if_due(batch.more);
    idle_polls_ = batch.received == 0 && !batch.more ? idle_polls_ + 1 : 0;
    yield = idle_polls_ >= idle_polls_before_yield && idle_polls_ % idle_polls_between_yields == 0;
  }
  if (yield) {
    sys::yield();
  }
  return true;
}

void EngineLoop::note_poll(Time time) {
  if (mode_ == Mode::asleep) {
    poll_streak_ = time - last_poll_ <= spinning_gap_max ? poll_streak_ + 1 : 0;
    if (poll_streak_ >= poll_streak_wanted_) {
      mode_ = Mode::watching;
      port_->finish_sleep();
      port_->wake();
    }
  }
  last_poll_ = time;
}

bool EngineLoop::add_qpn_block() {
  const auto first = fabric_ != nullptr ? fabric_->take_qpn_block() : std::nullopt;
  if (!first) {
    return false;
  }
  nic_.add_qpn_block(*first, block_qpns);
  return true;
}

void* EngineLoop::thread_entry(void* self) {
  static_cast<EngineLoop*>(self)->thread_main();
  return nullptr;
}

void EngineLoop::thread_main() {
  sys::prefer_short_slices(thread_slice);
  {
    const std::lock_guard guard(lock_);
    start_running();
    while (!stop_) {
      if (mode_ == Mode::watching) {
        watch();
      } else {
        serve();
      }
    }
  }
  thread_ended_.store(1, std::memory_order_release);
  sys::futex_wake_all(reinterpret_cast<const std::uint32_t*>(&thread_ended_));
}

void EngineLoop::serve() {
  if (!run_batch(true).more) {
    go_to_sleep();
    return;
  }
  lock_.let_others_in();
  if (now_ - window_start_ < spinning_window) {
    return;
  }
  const std::uint64_t polls = polls_.load(std::memory_order_relaxed) - window_polls_;
  poll_streak_ = polls >= spinning_window_polls ? poll_streak_ + polls : 0;
  if (poll_streak_ >= poll_streak_wanted_) {
    mode_ = Mode::watching;
  }
  window_start_ = now_;
  window_polls_ += polls;
}

void EngineLoop::start_running() {
  mode_ = Mode::running;
  poll_streak_ = 0;
  window_start_ = Engine::now();
  window_polls_ = polls_.load(std::memory_order_relaxed);
}

void EngineLoop::go_to_sleep() {
  if (!port_->prepare_sleep()) {
    lock_.let_others_in();
    return;
  }
  mode_ = Mode::asleep;
  poll_streak_ = 0;
  wake_time_ = next_deadline();
  if (wake_time_ == time_never) {
    sleep_unlocked(std::nullopt);
  } else {
    sleep_unlocked(std::max(wake_time_ - Engine::now(), Duration{0}));
  }
  port_->finish_sleep();
  if (mode_ == Mode::asleep) {
    start_running();
  }
}

void EngineLoop::watch() {
  const std::uint64_t polls_before = polls_.load(std::memory_order_relaxed);
  sleep_unlocked(polling_grace);
  port_->finish_sleep();
  const std::uint64_t polls = polls_.load(std::memory_order_relaxed) - polls_before;
  constexpr std::uint64_t windows = polling_grace / spinning_window;
  if (polls >= windows * spinning_window_polls) {
    learn(false);
    return;
  }
  start_running();
  learn(run_batch(true).received > 0);
}

void EngineLoop::learn(bool frames_waited) {
  poll_streak_wanted_ = frames_waited ? std::min(poll_streak_wanted_ * 4, streak_wanted_max)
                                      : std::max(poll_streak_wanted_ / 2, streak_wanted_min);
}

void EngineLoop::sleep_unlocked(std::optional<Duration> timeout) {
  pollfd bell{.fd = port_->fd(), .events = POLLIN, .revents = 0};
  lock_.unlock();
  static_cast<void>(sys::poll(&bell, 1, timeout));
  lock_.lock();
}

bool EngineLoop::stop_thread(Duration limit) {
  const auto* ended = reinterpret_cast<const std::uint32_t*>(&thread_ended_);
  if (lock_.try_lock_for(limit)) {
    stop_ = true;
    port_->wake();
    lock_.unlock();
  }
  constexpr int naps = 20;
  for (int nap = 0; nap < naps && thread_ended_.load(std::memory_order_acquire) == 0; ++nap) {
    sys::futex_wait(ended, 0, limit / naps);
  }
  return thread_ended_.load(std::memory_order_acquire) != 0;
}

void EngineLoop::before_fork() { locked_for_fork_ = lock_.try_lock_for(hook_patience); }

void EngineLoop::after_fork_in_parent() {
  if (locked_for_fork_) {
    lock_.unlock();
  }
}

void EngineLoop::after_fork_in_child() {
  dead_ = true;
  if (locked_for_fork_) {
    port_->abandon();
    lock_.unlock();
  }
}

void EngineLoop::at_exit() {
  if (thread_ && !stop_thread(hook_patience)) {
    return;
  }
  if (lock_.try_lock_for(hook_patience)) {
    const std::lock_guard guard(lock_, std::adopt_lock);
    fabric_ = nullptr;
    port_ = std::make_unique<NullPort>();
  }
}

}  // namespace verbena::ports
