#include "nic_model/cq.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace verbena::nic {

namespace {

/// The smallest ring. Drivers round up (mlx5 to the power of two above the wish), and programs rely
/// on it: `perftest -e` asks for one completion, and takes the event of one queue for that of the
/// other, so that it leaves a completion there while the next one arrives.
constexpr std::uint32_t capacity_min = 2;

constexpr std::uint32_t mask_for(std::uint32_t cqe) {
  return std::max(std::bit_ceil(cqe), capacity_min) - 1;
}

}  // namespace

Cq::Cq(std::uint32_t cqe, std::uintptr_t cookie, Counters& counters, Signals& signals)
    : mask_(mask_for(cqe)),
      ring_(std::make_unique<Completion[]>(std::size_t{mask_} + 1)),
      cookie_(cookie),
      counters_(counters),
      signals_(signals) {
  VERBENA_CHECK(cqe >= 1);
}

std::uint32_t Cq::poll(std::span<Completion> out) {
  const std::uint64_t begin = consumed_.load(std::memory_order_relaxed);
  const std::uint64_t end = produced_.load(std::memory_order_acquire);
  const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(end - begin, out.size()));
  for (std::uint32_t i = 0; i < count; ++i) {
    out[i] = ring_[(begin + i) & mask_];
  }
  consumed_.store(begin + count, std::memory_order_release);
  return count;
}

bool Cq::empty() const {
  return consumed_.load(std::memory_order_relaxed) == produced_.load(std::memory_order_acquire);
}

void Cq::complete(const Completion& completion, bool solicited) {
  const std::uint64_t at = produced_.load(std::memory_order_relaxed);
  if (at - consumed_.load(std::memory_order_acquire) > mask_ || overflowed()) {
    counters_.add(Counter::cq_overflow);
    return overflow();
  }
  ring_[at & mask_] = completion;
  produced_.store(at + 1, std::memory_order_release);
  if (armed_ == Armed::next || (armed_ == Armed::solicited && solicited)) {
    if (++moderated_ >= moderation_count_) {
      notify_now();
    } else if (notify_at_ == time_never) {
      notify_at_ = completion.time + moderation_period_;
      signals_.delayed.push_back(this);
    }
  }
}

void Cq::overflow() {
  if (!overflowed_.exchange(true, std::memory_order_acq_rel)) {
    signals_.overflowed.push_back(this);
  }
}

void Cq::notify_now() {
  armed_ = Armed::no;
  moderated_ = 0;
  if (notify_at_ != time_never) {
    notify_at_ = time_never;
    std::erase(signals_.delayed, this);
  }
  if (std::ranges::find(signals_.notified, this) == signals_.notified.end()) {
    signals_.notified.push_back(this);
  }
}

void Cq::moderate(std::uint32_t count, Duration period) {
  const bool waits = count > 1 && period > Duration::zero();
  moderation_count_ = waits ? count : 1;
  moderation_period_ = waits ? period : Duration::zero();
  if (notify_at_ != time_never && moderated_ >= moderation_count_) {
    notify_now();
  }
}

bool Cq::resize(std::uint32_t cqe) {
  VERBENA_CHECK(cqe >= 1);
  const std::uint64_t begin = consumed_.load(std::memory_order_acquire);
  const std::uint64_t end = produced_.load(std::memory_order_acquire);
  const std::uint32_t mask = mask_for(cqe);
  if (end - begin > cqe) {
    return false;
  }
  auto ring = std::make_unique<Completion[]>(std::size_t{mask} + 1);
  for (std::uint64_t at = begin; at != end; ++at) {
    ring[at & mask] = ring_[at & mask_];
  }
  ring_ = std::move(ring);
  mask_ = mask;
  return true;
}

void Cq::purge(Qpn qpn) {
  const std::uint64_t end = produced_.load(std::memory_order_relaxed);
  const std::uint64_t begin = consumed_.load(std::memory_order_relaxed);
  // What stays moves towards the newest, so that only the consumer's index changes.
  std::uint64_t kept = end;
  for (std::uint64_t at = end; at-- > begin;) {
    if (ring_[at & mask_].qpn != qpn) {
      ring_[--kept & mask_] = ring_[at & mask_];
    }
  }
  consumed_.store(kept, std::memory_order_release);
}

void Cq::arm(bool solicited_only) {
  // Asking for the next completion also covers the next solicited one (IBTA vol 1, 11.4.2.2).
  if (!solicited_only) {
    armed_ = Armed::next;
  } else if (armed_ == Armed::no) {
    armed_ = Armed::solicited;
  }
}

}  // namespace verbena::nic
