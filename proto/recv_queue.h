// The receive queue: a ring of receive requests. RecvSource is a queue pair's end of it: a queue of
// its own, or one that it shares with others (IBTA vol 1, 10.2.9).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "proto/work.h"

namespace verbena {

class RecvQueue {
 public:
  /// Room for at least `wr_max` requests (which may be 0) of up to `sge_max` SGEs.
  RecvQueue(std::uint32_t wr_max, std::uint32_t sge_max);

  [[nodiscard]] std::uint32_t wr_max() const { return wr_max_; }
  [[nodiscard]] std::uint32_t sge_max() const { return sge_max_; }
  [[nodiscard]] bool empty() const { return head_ == tail_; }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(tail_ - head_); }
  /// 0: none is set, or it has been reached.
  [[nodiscard]] std::uint32_t limit() const { return limit_; }

  /// Room for at least `wr_max` requests from now on. False if more than that wait.
  [[nodiscard]] bool resize(std::uint32_t wr_max);
  /// Asks to be told once that fewer than `limit` requests are left; 0: never.
  void set_limit(std::uint32_t limit) { limit_ = limit; }
  /// Whether the limit was reached since it was asked last.
  [[nodiscard]] bool take_limit_reached() { return std::exchange(limit_reached_, false); }

  /// The oldest request. The queue must not be empty.
  [[nodiscard]] RecvWr front() const;
  void pop();
  [[nodiscard]] Result<void, PostError> push(const RecvWr& wr);

 private:
  struct Wqe {
    std::uint64_t wr_id = 0;
    std::uint32_t sge_count = 0;
  };

  std::uint32_t wr_max_;
  std::uint32_t sge_max_;
  std::size_t mask_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::uint32_t limit_ = 0;
  bool limit_reached_ = false;
  std::unique_ptr<Wqe[]> wqes_;
  std::unique_ptr<Sge[]> sges_;
};

/// Where a responder gets its receive requests. From a shared queue a request is taken out when its
/// message begins: other queue pairs go on with the next one meanwhile.
class RecvSource {
 public:
  /// A queue of one's own.
  RecvSource(std::uint32_t wr_max, std::uint32_t sge_max)
      : own_(std::make_unique<RecvQueue>(wr_max, sge_max)), queue_(own_.get()) {}
  /// `shared` must outlive the source.
  explicit RecvSource(RecvQueue& shared) : queue_(&shared), held_sges_(shared.sge_max()) {}

  /// From now on requests come from `shared`. Nothing may be held.
  void share(RecvQueue& shared);

  [[nodiscard]] bool is(const RecvQueue& queue) const { return queue_ == &queue; }
  [[nodiscard]] bool is_shared() const { return own_ == nullptr; }
  /// Of a queue of one's own; 0 otherwise.
  [[nodiscard]] std::uint32_t wr_max() const { return is_shared() ? 0 : queue_->wr_max(); }
  /// There is none for a message that begins, or, within one, for the message.
  [[nodiscard]] bool empty() const { return !held_ && queue_->empty(); }
  /// There is none that belongs to this queue pair alone.
  [[nodiscard]] bool owns_none() const { return is_shared() ? !held_ : queue_->empty(); }

  /// The request of the message that comes in, or the next one. empty() must be false.
  [[nodiscard]] RecvWr front() const { return held_ ? *held_ : queue_->front(); }
  /// The next request becomes that of the message which begins, unless a message that was given up
  /// left one.
  void hold();
  /// The request has completed.
  void pop();
  /// Refused for a shared queue: requests are posted to that.
  [[nodiscard]] Result<void, PostError> push(const RecvWr& wr);
  /// Forgets what belongs to this queue pair alone.
  void clear();

 private:
  std::unique_ptr<RecvQueue> own_;
  RecvQueue* queue_;
  std::optional<RecvWr> held_;
  std::vector<Sge> held_sges_;
};

}  // namespace verbena
