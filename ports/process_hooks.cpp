#include "ports/process_hooks.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <ranges>
#include <vector>

#include "base/time.h"
#include "ports/sys.h"

namespace verbena::ports {

namespace {

/// Never destroyed: handlers may run later than the destructors of statics.
struct Registry {
  std::mutex mutex;
  std::vector<ProcessHook*> hooks;
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

void before_fork() {
  registry().mutex.lock();
  // The latest first, as those of pthread_atfork(): who came later may hold his lock and wait for
  // that of an earlier one.
  for (ProcessHook* hook : registry().hooks | std::views::reverse) {
    hook->before_fork();
  }
}

void after_fork_in_parent() {
  for (ProcessHook* hook : registry().hooks) {
    hook->after_fork_in_parent();
  }
  registry().mutex.unlock();
}

void after_fork_in_child() {
  for (ProcessHook* hook : registry().hooks) {
    hook->after_fork_in_child();
  }
  registry().hooks.clear();
  registry().mutex.unlock();
}

/// Futex: 1 as soon as what is to be done at exit is done.
std::atomic<std::uint32_t> left{0};

void at_exit() {
  const std::lock_guard guard(registry().mutex);
  // Who came later may need what was there before.
  for (ProcessHook* hook : registry().hooks | std::views::reverse) {
    hook->at_exit();
  }
  left = 1;
  sys::futex_wake_all(reinterpret_cast<const std::uint32_t*>(&left));
}

/// Behind at_exit() in the order of handlers. rping's threads both call exit(), at the same time:
/// then one of them runs at_exit(), and the other must not end the process meanwhile.
void await_at_exit() {
  // Nothing at exit takes that long, unless it hangs: not on a machine that is busy, either.
  constexpr Duration patience = std::chrono::seconds(10);
  constexpr int naps = 200;
  for (int nap = 0; nap < naps && left == 0; ++nap) {
    sys::futex_wait(reinterpret_cast<const std::uint32_t*>(&left), 0, patience / naps);
  }
}

}  // namespace

void install_process_handlers() {
  static std::once_flag installed;
  std::call_once(installed, [] {
    pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
    // The handler installed last runs first.
    std::atexit(&await_at_exit);
    std::atexit(&at_exit);
  });
}

void add_process_hook(ProcessHook& hook) {
  install_process_handlers();
  const std::lock_guard guard(registry().mutex);
  registry().hooks.push_back(&hook);
}

void remove_process_hook(ProcessHook& hook) {
  const std::lock_guard guard(registry().mutex);
  std::erase(registry().hooks, &hook);
}

}  // namespace verbena::ports
