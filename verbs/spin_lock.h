// A lock for a few instructions on the data path. It spins briefly, then gives the processor away:
// the holder may be waiting for it.
#pragma once

#include <sched.h>

#include <atomic>

namespace verbena::verbs {

class SpinLock {
 public:
  void lock() noexcept {
    for (unsigned spins = 0; locked_.exchange(true, std::memory_order_acquire); ++spins) {
      while (locked_.load(std::memory_order_relaxed)) {
        if (++spins < spins_before_yield) {
          __builtin_ia32_pause();
        } else {
          sched_yield();
        }
      }
    }
  }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  static constexpr unsigned spins_before_yield = 100;
  std::atomic<bool> locked_{false};
};

}  // namespace verbena::verbs
