#include "proto/recv_queue.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace verbena {

RecvQueue::RecvQueue(std::uint32_t wr_max, std::uint32_t sge_max)
    : wr_max_(wr_max == 0 ? 0 : std::bit_ceil(wr_max)),
      sge_max_(sge_max),
      mask_(wr_max_ == 0 ? 0 : wr_max_ - 1),
      wqes_(std::make_unique<Wqe[]>(wr_max_)),
      sges_(std::make_unique<Sge[]>(std::size_t{wr_max_} * sge_max)) {}

RecvWr RecvQueue::front() const {
  VERBENA_CHECK(!empty());
  const std::size_t at = static_cast<std::size_t>(head_) & mask_;
  return {.wr_id = wqes_[at].wr_id, .sges = {&sges_[at * sge_max_], wqes_[at].sge_count}};
}

void RecvQueue::pop() {
  VERBENA_CHECK(!empty());
  ++head_;
  if (size() < limit_) {
    limit_ = 0;
    limit_reached_ = true;
  }
}

Result<void, PostError> RecvQueue::push(const RecvWr& wr) {
  if (tail_ - head_ >= wr_max_) {
    return std::unexpected(PostError::queue_full);
  }
  if (wr.sges.size() > sge_max_) {
    return std::unexpected(PostError::too_many_sges);
  }
  const std::size_t at = static_cast<std::size_t>(tail_) & mask_;
  wqes_[at] = {.wr_id = wr.wr_id, .sge_count = static_cast<std::uint32_t>(wr.sges.size())};
  std::ranges::copy(wr.sges, &sges_[at * sge_max_]);
  ++tail_;
  return {};
}

bool RecvQueue::resize(std::uint32_t wr_max) {
  if (size() > wr_max) {
    return false;
  }
  RecvQueue resized(wr_max, sge_max_);
  for (; head_ != tail_; ++head_) {
    const bool moved = resized.push(front()).has_value();
    VERBENA_CHECK(moved);
  }
  resized.limit_ = limit_;
  resized.limit_reached_ = limit_reached_;
  *this = std::move(resized);
  return true;
}

void RecvSource::share(RecvQueue& shared) {
  VERBENA_CHECK(!held_);
  own_.reset();
  queue_ = &shared;
  if (held_sges_.size() < shared.sge_max()) {
    held_sges_.resize(shared.sge_max());
  }
}

void RecvSource::hold() {
  if (!is_shared() || held_) {
    return;
  }
  const RecvWr next = queue_->front();
  std::ranges::copy(next.sges, held_sges_.begin());
  held_ = {.wr_id = next.wr_id, .sges = std::span(held_sges_).first(next.sges.size())};
  queue_->pop();
}

void RecvSource::pop() {
  if (held_) {
    held_.reset();
  } else {
    queue_->pop();
  }
}

Result<void, PostError> RecvSource::push(const RecvWr& wr) {
  if (is_shared()) {
    return std::unexpected(PostError::shared_queue);
  }
  return queue_->push(wr);
}

void RecvSource::clear() {
  held_.reset();
  while (!is_shared() && !queue_->empty()) {
    queue_->pop();
  }
}

}  // namespace verbena
