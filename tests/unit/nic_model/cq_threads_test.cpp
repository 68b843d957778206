// A completion queue is polled by an application's thread while another runs the NIC: everything
// comes through, once and in order, and ThreadSanitizer sees no race.
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "nic_model/cq.h"

namespace verbena::test {

TEST_CASE("a queue may be polled while completions come in") {
  constexpr std::uint64_t count = 100'000;
  Counters counters;
  nic::Cq::Signals signals;
  nic::Cq cq(256, 0, counters, signals);
  std::atomic<std::uint64_t> consumed{0};

  std::thread producer([&] {
    for (std::uint64_t i = 0; i < count; ++i) {
      // As an application does that bounds its work in flight by the queue's size.
      while (i - consumed.load(std::memory_order_acquire) >= cq.capacity()) {
        std::this_thread::yield();
      }
      cq.complete({.wr_id = i}, false);
    }
  });
  std::array<Completion, 16> out;
  std::uint64_t next = 0;
  bool in_order = true;
  while (next < count) {
    const std::uint32_t got = cq.poll(out);
    for (std::uint32_t i = 0; i < got; ++i) {
      in_order = in_order && out[i].wr_id == next++;
    }
    consumed.store(next, std::memory_order_release);
    if (got == 0) {
      std::this_thread::yield();
    }
  }
  producer.join();
  CHECK(in_order);
  CHECK(cq.empty());
  CHECK_FALSE(cq.overflowed());
}

}  // namespace verbena::test
