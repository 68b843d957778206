// The engine's lock: exclusion, and that the thread that runs the NIC for long lets others in.
#include "ports/engine_lock.h"

#include "tests/unit/ports/support.h"

namespace verbena::ports {
namespace {

using namespace std::chrono_literals;

TEST_CASE("the engine's lock keeps threads apart") {
  EngineLock lock;
  std::uint64_t count = 0;
  const auto add = [&] {
    for (int i = 0; i < 50'000; ++i) {
      lock.lock();
      ++count;
      lock.unlock();
    }
  };
  std::thread first(add);
  std::thread second(add);
  add();
  first.join();
  second.join();
  CHECK(count == 150'000);
}

TEST_CASE("a held lock is not taken, and a bounded wait for it ends") {
  EngineLock lock;
  lock.lock();
  CHECK_FALSE(lock.try_lock());
  CHECK_FALSE(lock.try_lock_for(2ms));
  lock.unlock();
  CHECK(lock.try_lock_for(0ms));
  lock.unlock();
}

TEST_CASE("a thread that keeps the lock in a loop lets a waiter in") {
  EngineLock lock;
  std::atomic<bool> came_in = false;
  lock.lock();
  std::thread waiter([&] {
    lock.lock();
    came_in = true;
    lock.unlock();
  });
  CHECK(test::eventually([&] {
    lock.let_others_in();
    return came_in.load();
  }));
  lock.unlock();
  waiter.join();
}

}  // namespace
}  // namespace verbena::ports
