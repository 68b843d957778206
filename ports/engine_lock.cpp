#include "ports/engine_lock.h"

#include <immintrin.h>

#include <chrono>

#include "ports/sys.h"

namespace verbena::ports {

namespace {

constexpr int spins_max = 200;

/// How often a thread that lets others in gives up its processor. Where nothing else wants to run
/// that costs half a microsecond each; on a busy machine a waiter gets its turn.
constexpr int yields_max = 8;

/// The futex word of an atomic.
const std::uint32_t* word_of(const std::atomic<std::uint32_t>& atomic) {
  return reinterpret_cast<const std::uint32_t*>(&atomic);
}

}  // namespace

// As mutex 2 of "Futexes Are Tricky" (Drepper, 2011), with a spin in front.
void EngineLock::lock() {
  if (try_lock()) {
    return;
  }
  waiters_.fetch_add(1, std::memory_order_relaxed);
  bool locked = false;
  for (int spin = 0; spin < spins_max && !locked; ++spin) {
    _mm_pause();
    locked = state_.load(std::memory_order_relaxed) == free && try_lock();
  }
  while (!locked && state_.exchange(held_and_awaited, std::memory_order_acquire) != free) {
    sys::futex_wait(word_of(state_), held_and_awaited);
  }
  waiters_.fetch_sub(1, std::memory_order_relaxed);
}

bool EngineLock::try_lock_for(Duration limit) {
  constexpr Duration pause = std::chrono::milliseconds(1);
  for (Duration waited{0}; waited < limit; waited += pause) {
    if (try_lock()) {
      return true;
    }
    static_cast<void>(sys::poll(nullptr, 0, pause));
  }
  return try_lock();
}

void EngineLock::wake_one() { sys::futex_wake_one(word_of(state_)); }

void EngineLock::let_others_in() {
  if (waiters_.load(std::memory_order_relaxed) == 0) {
    return;
  }
  unlock();
  // Without this the thread that unlocked would have the lock again before a waiter woke up, or
  // before it got a processor.
  const auto awaited = [this] { return waiters_.load(std::memory_order_relaxed) != 0; };
  for (int spin = 0; spin < spins_max && awaited(); ++spin) {
    _mm_pause();
  }
  for (int turn = 0; turn < yields_max && awaited(); ++turn) {
    sys::yield();
  }
  lock();
}

}  // namespace verbena::ports
