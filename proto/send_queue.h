// The send queue: a ring of work queue elements, allocated once, with what the requester keeps per
// request. Indices count up for ever; a slot is its index modulo the capacity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "base/check.h"
#include "base/ids.h"
#include "base/result.h"
#include "proto/work.h"

namespace verbena {

struct SendWqe {
  std::uint64_t wr_id = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  Va remote_addr{};
  Rkey rkey{};
  ImmData imm{};
  Rkey invalidate_rkey{};
  Srqn remote_srqn{};
  WindowBinding binding;
  Flush flush;
  std::uint32_t length = 0;
  std::uint32_t sge_count = 0;
  WrOpcode opcode = WrOpcode::send;
  bool signaled = false;
  bool solicited = false;
  bool fence = false;
  bool inline_data = false;

  // Set when the requester begins with the request.
  bool started = false;
  Psn first_psn;
  /// PSNs the request takes: its packets, or for a READ those of the response. 0 only of what the
  /// NIC does itself.
  std::uint32_t psn_count = 0;

  [[nodiscard]] Psn end_psn() const { return first_psn + static_cast<std::int32_t>(psn_count); }
  [[nodiscard]] bool is_read() const { return opcode == WrOpcode::rdma_read; }
  [[nodiscard]] bool is_atomic() const {
    return opcode == WrOpcode::atomic_cmp_and_swp || opcode == WrOpcode::atomic_fetch_and_add;
  }
  [[nodiscard]] bool is_flush() const { return opcode == WrOpcode::flush; }
  /// Answered by a response that brings data.
  [[nodiscard]] bool wants_data() const { return is_read() || is_atomic(); }
  /// Answered by a response of its own, not by an ACK that may cover others.
  [[nodiscard]] bool wants_response() const {
    return wants_data() || is_flush() || opcode == WrOpcode::atomic_write;
  }
};

struct SendQueueLimits {
  std::uint32_t wr_max = 1;
  std::uint32_t sge_max = 1;
  std::uint32_t inline_bytes_max = 0;
};

class SendQueue {
 public:
  /// Room for at least limits.wr_max requests.
  explicit SendQueue(const SendQueueLimits& limits);

  [[nodiscard]] const SendQueueLimits& limits() const { return limits_; }
  /// Index of the oldest request that has not completed, and of the next one to be posted.
  [[nodiscard]] std::uint64_t head() const { return head_; }
  [[nodiscard]] std::uint64_t tail() const { return tail_; }
  [[nodiscard]] bool empty() const { return head_ == tail_; }
  /// Requests that still fit.
  [[nodiscard]] std::size_t room() const {
    return mask_ + 1 - static_cast<std::size_t>(tail_ - head_);
  }

  [[nodiscard]] SendWqe& at(std::uint64_t index) {
    VERBENA_CHECK(index >= head_ && index < tail_);
    return wqes_[slot(index)];
  }
  [[nodiscard]] const SendWqe& at(std::uint64_t index) const {
    VERBENA_CHECK(index >= head_ && index < tail_);
    return wqes_[slot(index)];
  }
  /// The local memory of a request; empty for inline data.
  [[nodiscard]] std::span<const Sge> sges(std::uint64_t index) const;
  /// The data of a request that carries it inline.
  [[nodiscard]] ByteView inline_bytes(std::uint64_t index) const;

  /// Copies the request into the ring; inline data is copied too.
  [[nodiscard]] Result<void, PostError> push(const SendWr& wr);
  /// Frees the oldest slot.
  void pop();

 private:
  [[nodiscard]] std::size_t slot(std::uint64_t index) const {
    return static_cast<std::size_t>(index) & mask_;
  }

  SendQueueLimits limits_;
  std::size_t mask_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::unique_ptr<SendWqe[]> wqes_;
  std::unique_ptr<Sge[]> sges_;
  std::unique_ptr<std::byte[]> inline_;
};

}  // namespace verbena
