#include "proto/send_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace verbena {

SendQueue::SendQueue(const SendQueueLimits& limits) : limits_(limits) {
  const std::size_t capacity = std::bit_ceil(std::size_t{std::max(limits.wr_max, 1U)});
  limits_.wr_max = static_cast<std::uint32_t>(capacity);
  mask_ = capacity - 1;
  wqes_ = std::make_unique<SendWqe[]>(capacity);
  sges_ = std::make_unique<Sge[]>(capacity * limits.sge_max);
  inline_ = std::make_unique_for_overwrite<std::byte[]>(capacity * limits.inline_bytes_max);
}

std::span<const Sge> SendQueue::sges(std::uint64_t index) const {
  return {&sges_[slot(index) * limits_.sge_max], wqes_[slot(index)].sge_count};
}

ByteView SendQueue::inline_bytes(std::uint64_t index) const {
  return {&inline_[slot(index) * limits_.inline_bytes_max], wqes_[slot(index)].length};
}

Result<void, PostError> SendQueue::push(const SendWr& wr) {
  if (tail_ - head_ > mask_) {
    return std::unexpected(PostError::queue_full);
  }
  const std::uint64_t length = total_length(wr.sges);
  if (length > message_bytes_max) {
    return std::unexpected(PostError::message_too_long);
  }
  if (wr.inline_data ? length > limits_.inline_bytes_max : wr.sges.size() > limits_.sge_max) {
    return std::unexpected(wr.inline_data ? PostError::inline_too_long : PostError::too_many_sges);
  }
  const std::size_t at = slot(tail_);
  wqes_[at] = SendWqe{
      .wr_id = wr.wr_id,
      .compare_add = wr.compare_add,
      .swap = wr.swap,
      .remote_addr = wr.remote_addr,
      .rkey = wr.rkey,
      .imm = wr.imm,
      .invalidate_rkey = wr.invalidate_rkey,
      .remote_srqn = wr.remote_srqn,
      .binding = wr.binding,
      .flush = wr.flush,
      .length = static_cast<std::uint32_t>(length),
      .sge_count = wr.inline_data ? 0 : static_cast<std::uint32_t>(wr.sges.size()),
      .opcode = wr.opcode,
      .signaled = wr.signaled,
      .solicited = wr.solicited,
      .fence = wr.fence,
      .inline_data = wr.inline_data,
      .started = false,
      .first_psn = Psn(),
      .psn_count = 0,
  };
  if (wr.inline_data) {
    std::byte* to = &inline_[at * limits_.inline_bytes_max];
    for (const Sge& sge : wr.sges) {
      if (sge.length == 0) {
        continue;  // Its address may be null, which memcpy doesn't take.
      }
      // The verbs API says so: with inline data, addr is an address of the posting process.
      std::memcpy(to, reinterpret_cast<const std::byte*>(to_value(sge.addr)), sge.length);
      to += sge.length;
    }
  } else {
    std::ranges::copy(wr.sges, &sges_[at * limits_.sge_max]);
  }
  ++tail_;
  return {};
}

void SendQueue::pop() {
  VERBENA_CHECK(!empty());
  ++head_;
}

}  // namespace verbena
