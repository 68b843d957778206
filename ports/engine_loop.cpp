#include "ports/engine_loop.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <mutex>

#include "ports/log.h"
#include "ports/own_thread.h"
#include "ports/sys.h"

namespace verbena::ports {

namespace {

using namespace std::chrono_literals;

/// Frames received and frames sent in one batch.
constexpr std::uint32_t batch_frames_max = 64;
/// Batches that a command sends before it returns. The rest is sent by polls or by the thread.
constexpr int command_batches_max = 4;
/// For so long nobody runs the NIC after an application stopped spinning: at first the shorter
/// time, and twice that after each in which it went on.
constexpr Duration polling_grace_min = 125us;
constexpr Duration polling_grace_max = 1ms;
/// An application spins when it polls this often in a row, each time this soon after the last; the
/// longer streak is wanted of one that was trusted too early.
constexpr std::uint64_t streak_wanted_min = 64;
constexpr std::uint64_t streak_wanted_max = 1U << 20;
constexpr Duration spinning_gap_max = 10us;
/// The same as the thread sees it: this many polls in each such window.
constexpr Duration spinning_window = 100us;
constexpr std::uint64_t spinning_window_polls = 20;
/// One that spins is trusted for as long as it polls this often in each window.
constexpr std::uint64_t trusted_window_polls = 5;
/// An application that has polled in vain so often gives its processor away now and then: the peer
/// that it waits for may need it.
constexpr std::uint32_t idle_polls_before_yield = 1024;
constexpr std::uint32_t idle_polls_between_yields = 64;
/// How long answers wait for the application's next call, when it polls in a loop, and when the
/// thread received the frames and the application has yet to see what came.
constexpr Duration poll_patience = 10us;
constexpr Duration thread_patience = 20us;
/// Linux sleeps longer than asked for, by 50 us unless told otherwise.
constexpr Duration thread_timer_slack = 1us;
/// The thread works for microseconds and should do so at once, also where spinning programs occupy
/// all processors. The shortest slice that Linux allows.
constexpr Duration thread_slice = 100us;
/// Publishing what is counted takes no more than this part of the time: 0.1 %.
constexpr int publishing_cost_divisor = 1000;
/// fork() and exit() don't wait longer for a lock whose holder may never come back: the thread that
/// holds it may be the one that forks or exits, in a signal handler.
constexpr Duration hook_patience = 200ms;
/// And how long they wait for the thread to end, which takes long only where it gets no processor.
constexpr Duration thread_end_patience = 5s;

/// What this thread has had of a processor. By the clock, a thread that lost its processor in
/// between looks as if it had worked all that time.
Duration processor_time() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

/// A port without a network, for what comes after exit().
class NullPort final : public Port {
 public:
  MutableBytes reserve(const FrameRoute& /*route*/, std::size_t bytes) override {
    return MutableBytes(frame_).first(std::min(bytes, frame_.size()));
  }
  void commit(const PacketNote& /*note*/) override { ++statistics_.frames_lost; }
  [[nodiscard]] bool is_unread(const FrameRoute& /*route*/) override { return false; }
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
                       std::unique_ptr<Port> port, TcpPort* streams, Fabric& fabric)
    : listener_(listener),
      log_(config.name, fabric, nic_),
      tells_verdicts_(logs(LogLevel::debug)),
      port_(std::move(port)),
      streams_(streams),
      fabric_(&fabric),
      nic_(config.profile, nic_config(config), sys::random_bits()),
      statistics_(config.fabric_path, fabric.self(), config.name),
      poll_streak_wanted_(streak_wanted_min),
      polling_grace_(polling_grace_min),
      poll_patience_(poll_patience),
      thread_patience_(thread_patience) {
  nic_.set_observer(&log_);
  add_process_hook(*this);
}

EngineLoop::~EngineLoop() {
  remove_process_hook(*this);
  if (thread_) {
    // The thread holds the lock for a batch at most, so it ends for certain.
    while (!stop_thread(1s)) {
    }
    pthread_join(*thread_, nullptr);
    settle();
  }
}

Result<void, int> EngineLoop::start() {
  // Who has opened a device can be seen from then on.
  publish_statistics();
  const auto thread = start_own_thread("verbena", &EngineLoop::thread_entry, this);
  if (!thread) {
    return std::unexpected(thread.error());
  }
  thread_ = *thread;
  return {};
}

void EngineLoop::receive(Batch& batch) {
  batch.frames = port_->poll_receive(*this, batch_frames_max);
  batch.received = batch.frames;
  batch.more = batch.frames == batch_frames_max;
  if (streams_ != nullptr) {
    const TcpPort::Received streams = streams_->receive(nic_, now_);
    batch.received += streams.pieces;
    batch.more = batch.more || streams.more;
  }
}

/// All of it is under way when it returns, as far as there is room.
nic::TransmitStatus EngineLoop::transmit(Order order) {
  if (streams_ != nullptr) {
    const auto status = nic_.poll_streams(now_, *streams_, batch_frames_max);
    streams_->flush();
    streams_->settle(nic_, now_);
    return status;
  }
  const auto status =
      nic_.poll_transmit(now_, *port_, batch_frames_max,
                         order == Order::send_held ? nic::TransmitOrder::requests_first
                                                   : nic::TransmitOrder::answers_first);
  port_->flush();
  return status;
}

EngineLoop::Batch EngineLoop::run_batch(Order order) {
  now_ = Engine::now();
  port_->begin_batch(now_);
  inject_failures();
  Batch batch;
  if (order == Order::send_then_receive && nic_.next_timeout() <= now_) {
    order = Order::receive_then_send;
  }
  // Timers are served behind a look at what has come, by whoever looks next: if we have been kept
  // from running, what a timer waits for may be here, unread.
  bool is_due = false;
  if (order == Order::receive_then_send) {
    receive(batch);
    is_due = nic_.next_timeout() <= now_;
    if (is_due) {
      nic_.on_timer(now_, port_.get());
    }
  }
  const std::uint64_t sent_before = nic_.counters()[Counter::sent_pkts];
  const auto status = transmit(order);
  poll_patience_.sent();
  thread_patience_.sent();
  if (order == Order::send_then_receive) {
    receive(batch);
    port_->flush();  // Frames for other processes of this host.
  }
  deliver_events();
  if (batch.received > 0 || is_due || nic_.counters()[Counter::sent_pkts] != sent_before) {
    is_unpublished_ = true;
  }
  if (is_unpublished_ && now_ >= next_publishing_) {
    publish_statistics();
  }
  batch.more = batch.more || status == nic::TransmitStatus::more;
  return batch;
}

void EngineLoop::inject_failures() {
  if (fabric_ == nullptr) {
    return;
  }
  while (const auto injection = fabric_->doorbell().take_injection()) {
    nic_.inject(now_, injection->event, injection->qpn);
  }
}

void EngineLoop::deliver_events() {
  while (const auto event = nic_.poll_event()) {
    listener_.on_async_event(*event);
  }
  while (nic::Cq* cq = nic_.poll_cq_notification()) {
    listener_.on_cq_notification(*cq);
  }
  while (const auto membership = nic_.poll_membership()) {
    port_->set_membership(*membership);
  }
}

void EngineLoop::publish_statistics() {
  const Time start = Engine::now();
  const Duration before = processor_time();
  statistics_.publish(start, nic_, port_->statistics());
  const Duration cost = processor_time() - before;
  next_publishing_ = start + std::max(publishing_interval, cost * publishing_cost_divisor);
  is_unpublished_ = false;
}

Time EngineLoop::next_deadline() const {
  const Time publishing = is_unpublished_ ? next_publishing_ : time_never;
  return std::min({nic_.next_timeout(), port_->next_deadline(), publishing});
}

bool EngineLoop::holds_answers() const {
  return poll_patience_.holding() || thread_patience_.holding();
}

void EngineLoop::settle() {
  if (holds_answers()) {
    run_effects();
  }
}

void EngineLoop::after_post_send(Time now) {
  poll_patience_.replied(now);
  thread_patience_.replied(now);
  // The first batch only: behind a long reply, answers don't wait for its end.
  run_effects(holds_answers() ? Order::send_held : Order::send_only);
}

void EngineLoop::after_post_recv() {
  if (!holds_answers()) {
    run_effects();
  } else if (!dead_) {
    deliver_events();
  }
}

void EngineLoop::run_effects(Order order) {
  if (dead_) {
    return;
  }
  is_unpublished_ = true;
  bool more = true;
  for (int batch = 0; more && batch < command_batches_max; ++batch) {
    more = run_batch(order).more;
    order = Order::send_only;
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
    // Not while the thread sleeps for longer: it must be there to end a hold.
    const bool hold = mode_ == Mode::watching && poll_patience_.willing();
    const Batch batch = run_batch(hold ? Order::send_then_receive : Order::receive_then_send);
    if (batch.frames > 0) {
      poll_patience_.received(now_, hold);
    }
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
  sys::set_timer_slack(thread_timer_slack);
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

EngineLoop::Batch EngineLoop::run_thread_batch() {
  if (!thread_patience_.willing()) {
    const Batch batch = run_batch(Order::receive_then_send);
    if (batch.frames > 0) {
      thread_patience_.received(now_, false);
    }
    return batch;
  }
  const Batch batch = run_batch(Order::send_then_receive);
  if (batch.received == 0) {
    return batch;
  }
  thread_patience_.received(now_, true);
  if (batch.more) {
    return batch;
  }
  lock_.unlock();
  static_cast<void>(sys::poll(nullptr, 0, thread_patience));
  lock_.lock();
  return run_batch(Order::receive_then_send);
}

void EngineLoop::serve() {
  if (!run_thread_batch().more) {
    go_to_sleep();
    return;
  }
  lock_.let_others_in();
  if (now_ - window_start_ < spinning_window) {
    return;
  }
  // Who is busy without end never sleeps at its doorbell, where injections come in. Nobody else may
  // look there: what wakes the thread would be gone before the thread has seen it.
  if (fabric_ != nullptr) {
    fabric_->doorbell().drain();
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
  window_start_ = Engine::now();
  window_polls_ = polls_.load(std::memory_order_relaxed);
}

void EngineLoop::go_to_sleep() {
  if (!port_->prepare_sleep()) {
    lock_.let_others_in();
    return;
  }
  mode_ = Mode::asleep;
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
  const Duration grace = polling_grace_;
  sleep_unlocked(grace);
  port_->finish_sleep();
  const std::uint64_t polls = polls_.load(std::memory_order_relaxed) - polls_before;
  const auto windows = static_cast<std::uint64_t>(grace / spinning_window);
  if (polls >= windows * trusted_window_polls) {
    if (Engine::now() - last_poll_ > spinning_window) {
      // It polls in turn with something else, such as a byte of memory: what it waits for may be
      // here.
      polling_grace_ = polling_grace_min;
      run_thread_batch();
    } else {
      polling_grace_ = std::min(2 * grace, polling_grace_max);
      learn(false);
    }
    return;
  }
  polling_grace_ = polling_grace_min;
  start_running();
  learn(run_thread_batch().received > 0);
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
  if (!lock_.try_lock_for(limit)) {
    return false;
  }
  stop_ = true;
  port_->wake();
  lock_.unlock();
  // It waits for nothing but the lock, which nobody keeps. It may wait for a processor, though.
  const auto* ended = reinterpret_cast<const std::uint32_t*>(&thread_ended_);
  constexpr int naps = 500;
  for (int nap = 0; nap < naps && thread_ended_.load(std::memory_order_acquire) == 0; ++nap) {
    sys::futex_wait(ended, 0, thread_end_patience / naps);
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
    settle();
    fabric_ = nullptr;
    log_.leave_fabric();
    statistics_.close();
    streams_ = nullptr;
    port_ = std::make_unique<NullPort>();
  }
}

}  // namespace verbena::ports
