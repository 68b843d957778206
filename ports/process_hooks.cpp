#include "ports/process_hooks.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

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
  for (ProcessHook* hook : registry().hooks) {
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

void at_exit() {
  const std::lock_guard guard(registry().mutex);
  for (ProcessHook* hook : registry().hooks) {
    hook->at_exit();
  }
}

}  // namespace

void install_process_handlers() {
  static std::once_flag installed;
  std::call_once(installed, [] {
    pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
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
