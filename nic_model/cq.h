// A completion queue: a ring with one producer (whoever runs the Nic) and one consumer at a time.
// It may be polled without the lock that guards the Nic: that is how an application sees a
// completion without waiting for the thread that made it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "proto/counters.h"
#include "proto/work.h"

namespace verbena::nic {

class Cq final : public CompletionSink {
 public:
  /// What the Nic wants to hear of its CQs. All lists have room for every CQ; each is in each at
  /// most once.
  struct Signals {
    std::vector<Cq*> notified;
    /// Those whose notification waits for more completions, or until notify_at().
    std::vector<Cq*> delayed;
    std::vector<Cq*> overflowed;
  };

  /// Room for at least `cqe` completions, cqe >= 1. `cookie` is the owner's, never read here.
  Cq(std::uint32_t cqe, std::uintptr_t cookie, Counters& counters, Signals& signals);

  /// The number of completions that fit.
  [[nodiscard]] std::uint32_t capacity() const { return mask_ + 1; }
  [[nodiscard]] std::uintptr_t cookie() const { return cookie_; }

  /// Consumer side: moves up to out.size() completions out, oldest first, and returns how many.
  /// Safe beside the producer; two consumers at once need a lock of their own.
  [[nodiscard]] std::uint32_t poll(std::span<Completion> out);
  /// Whether poll() would find nothing; cheap, and safe beside the producer.
  [[nodiscard]] bool empty() const;
  /// True after an overflow: poll() still gives what was in the ring, then nothing ever comes.
  [[nodiscard]] bool overflowed() const { return overflowed_.load(std::memory_order_acquire); }

  /// Producer side. A completion that doesn't fit is lost, and the queue is in error for good
  /// (IBTA vol 1, 10.2.3: CQ overrun); Nic::poll_event() reports it.
  void complete(const Completion& completion, bool solicited) override;
  /// Both sides at once: room for at least `cqe` completions. False if more than that wait.
  [[nodiscard]] bool resize(std::uint32_t cqe);
  /// Producer side: as if a completion had not fitted.
  void overflow();
  /// Producer side: one notification at the next completion, or the next solicited one.
  void arm(bool solicited_only);
  /// Both sides at once, so nobody may be polling: takes away what that queue pair completed and
  /// nobody has polled. The others' completions stay, in their order.
  void purge(Qpn qpn);
  /// Producer side: a notification waits for `count` completions, but no longer than `period` after
  /// the first; nothing waits if either is at most 1 or 0.
  void moderate(std::uint32_t count, Duration period);
  /// When a notification that waits is due.
  [[nodiscard]] Time notify_at() const { return notify_at_; }
  /// Producer side: the time has come.
  void notify_now();

  /// Queue pairs that complete here. The Nic counts.
  std::uint32_t users = 0;

 private:
  enum class Armed : std::uint8_t { no, solicited, next };

  std::uint32_t mask_;
  std::unique_ptr<Completion[]> ring_;
  std::uintptr_t cookie_;
  Counters& counters_;
  Signals& signals_;
  Armed armed_ = Armed::no;
  std::uint32_t moderation_count_ = 1;
  Duration moderation_period_{0};
  /// Completions that the notification which waits is for.
  std::uint32_t moderated_ = 0;
  Time notify_at_ = time_never;
  std::atomic<bool> overflowed_{false};
  // Each side's index on a cache line of its own.
  alignas(64) std::atomic<std::uint64_t> produced_{0};
  alignas(64) std::atomic<std::uint64_t> consumed_{0};
};

}  // namespace verbena::nic
