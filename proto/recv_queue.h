// The receive queue: a ring of receive requests, allocated once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

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
  std::unique_ptr<Wqe[]> wqes_;
  std::unique_ptr<Sge[]> sges_;
};

}  // namespace verbena
