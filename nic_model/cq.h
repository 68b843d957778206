// A completion queue: a ring with one producer (whoever runs the Nic) and one consumer at a time.
// It may be polled without the lock that guards the Nic: that is how an application sees a
// completion without waiting for the thread that made it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "proto/counters.h"
#include "proto/work.h"

namespace verbena::nic {

class Nic;

class Cq final : public CompletionSink {
 public:
  /// Room for at least `cqe` completions, cqe >= 1. `cookie` is the owner's, never read here.
  Cq(std::uint32_t cqe, std::uintptr_t cookie, Counters& counters);

  /// The number of completions that fit.
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  [[nodiscard]] std::uintptr_t cookie() const { return cookie_; }

  /// Consumer side: moves up to out.size() completions out, oldest first, and returns how many.
  /// Safe beside the producer; two consumers at once need a lock of their own.
  [[nodiscard]] std::uint32_t poll(std::span<Completion> out);
  /// Whether poll() would find something; cheap, and safe beside the producer.
  [[nodiscard]] bool empty() const;
  /// True after an overflow: poll() still gives what was in the ring, then nothing ever comes.
  [[nodiscard]] bool overflowed() const { return overflowed_.load(std::memory_order_acquire); }

  /// Producer side. A completion that doesn't fit is lost, and the queue is in error for good
  /// (IBTA vol 1, 10.2.3: CQ overrun); Nic::poll_event() reports it.
  void complete(const Completion& completion, bool solicited) override;

 private:
  friend class Nic;

  std::unique_ptr<Completion[]> ring_;
  std::uint32_t capacity_;
  std::uint32_t mask_;
  std::uintptr_t cookie_;
  Counters& counters_;
  alignas(64) std::atomic<std::uint64_t> produced_{0};
  alignas(64) std::atomic<std::uint64_t> consumed_{0};
  std::atomic<bool> overflowed_{false};

  // Owned by the Nic's side.
  enum class Armed : std::uint8_t { no, solicited, next };
  Armed armed_ = Armed::no;
  bool notification_pending_ = false;
  bool overflow_pending_ = false;
  std::uint32_t users_ = 0;
};

}  // namespace verbena::nic
