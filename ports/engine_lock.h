// The engine's lock. Holders keep it for microseconds, so waiters spin a little before they sleep;
// the thread that runs the NIC for long lets waiters through between batches.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace verbena::ports {

class EngineLock {
 public:
  void lock();
  [[nodiscard]] bool try_lock() {
    std::uint32_t expected = free;
    return state_.compare_exchange_strong(expected, held, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  /// For those who must not wait forever: a process that exits, or forks.
  [[nodiscard]] bool try_lock_for(Duration limit);
  void unlock() {
    if (state_.exchange(free, std::memory_order_release) == held_and_awaited) {
      wake_one();
    }
  }

  /// Unlocks, lets those that wait have it, and locks again.
  void let_others_in();

 private:
  enum State : std::uint32_t { free = 0, held = 1, held_and_awaited = 2 };

  void wake_one();

  std::atomic<std::uint32_t> state_{free};
  std::atomic<std::uint32_t> waiters_{0};
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
};

}  // namespace verbena::ports
