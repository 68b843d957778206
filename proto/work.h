// Work requests and completions: what a consumer asks of a queue pair and what it is told in the
// end. The values of the enumerators are those of the verbs ABI (rdma-core's <infiniband/verbs.h>),
// which verbs/ asserts, so that crossing the ABI is a cast and not a table.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/time.h"
#include "proto/address_handle.h"
#include "proto/memory_access.h"

namespace verbena {

/// Operations of the send queue (IBTA vol 1, 11.4.1.1).
enum class WrOpcode : std::uint8_t {
  rdma_write = 0,
  rdma_write_with_imm = 1,
  send = 2,
  send_with_imm = 3,
  rdma_read = 4,
  atomic_cmp_and_swp = 5,
  atomic_fetch_and_add = 6,
  local_inv = 7,
  bind_mw = 8,
  send_with_inv = 9,
  /// As later versions of rdma-core number it; version 44 has no call for it.
  flush = 14,
  atomic_write = 15,
};

/// Done by the NIC itself, without a packet.
[[nodiscard]] constexpr bool is_local(WrOpcode opcode) {
  return opcode == WrOpcode::local_inv || opcode == WrOpcode::bind_mw;
}

/// How a work request ended (IBTA vol 1, 11.6.2).
enum class WcStatus : std::uint8_t {
  success = 0,
  loc_len_err = 1,
  loc_qp_op_err = 2,
  loc_eec_op_err = 3,
  loc_prot_err = 4,
  wr_flush_err = 5,
  mw_bind_err = 6,
  bad_resp_err = 7,
  loc_access_err = 8,
  rem_inv_req_err = 9,
  rem_access_err = 10,
  rem_op_err = 11,
  retry_exc_err = 12,
  rnr_retry_exc_err = 13,
};

/// The specification's name of a status, for reports ("retry_exc_err").
[[nodiscard]] const char* name_of(WcStatus status) noexcept;

/// What completed.
enum class WcOpcode : std::uint8_t {
  send = 0,
  rdma_write = 1,
  rdma_read = 2,
  comp_swap = 3,
  fetch_add = 4,
  bind_mw = 5,
  local_inv = 6,
  flush = 8,
  atomic_write = 9,
  recv = 128,
  recv_rdma_with_imm = 129,
};

/// The completion opcode of a send queue operation.
[[nodiscard]] WcOpcode completion_opcode(WrOpcode opcode) noexcept;

/// Immediate data: the 32-bit number that the wire carries big-endian, here in host order.
enum class ImmData : std::uint32_t {};

/// The number of an XRC shared receive queue, 24 bits.
enum class Srqn : std::uint32_t {};

/// One piece of local memory.
struct Sge {
  Va addr{};
  std::uint32_t length = 0;
  Lkey lkey{};
};

/// Sum of the lengths in 64 bits: 32 SGEs of 4 GiB do not wrap.
[[nodiscard]] constexpr std::uint64_t total_length(std::span<const Sge> sges) {
  std::uint64_t sum = 0;
  for (const Sge& sge : sges) {
    sum += sge.length;
  }
  return sum;
}

/// A send work request. The spans are read during the post and not kept.
struct SendWr {
  std::uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::send;
  bool signaled = false;
  bool solicited = false;
  /// Wait until all earlier RDMA READs and atomics of this queue completed.
  bool fence = false;
  /// The data is copied during the post: `addr` of each SGE is a host pointer, `lkey` is ignored.
  bool inline_data = false;
  std::span<const Sge> sges;
  ImmData imm{};
  /// SEND with invalidate: the peer's key. Local invalidate: ours.
  Rkey invalidate_rkey{};
  Va remote_addr{};
  Rkey rkey{};
  /// Atomics: the addend, or the value to compare with; and the value to swap in.
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  /// UD: where it goes, and with which Q_Key; if bit 31 of that is set, with the queue pair's.
  const AddressHandle* address = nullptr;
  Qpn remote_qpn{};
  Qkey remote_qkey{};
  /// XRC: the receive queue at the peer that the message is for.
  Srqn remote_srqn{};
  /// Of bind_mw.
  WindowBinding binding{};
  /// Of flush, with `remote_addr` and `rkey`. It has no local memory.
  Flush flush{};
};

/// A receive work request. The span is read during the post and not kept.
struct RecvWr {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sges;
};

/// Why a post was refused. Nothing was queued.
enum class PostError : std::uint8_t {
  /// The state of the queue pair does not allow it (EINVAL).
  wrong_state,
  /// The queue is full (ENOMEM).
  queue_full,
  /// More SGEs than the queue was created for (EINVAL).
  too_many_sges,
  /// Inline data longer than the queue was created for (EINVAL).
  inline_too_long,
  /// Longer than 2^31 bytes (EINVAL; IBTA vol 1, 9.7.7).
  message_too_long,
  /// The operation does not exist on this transport (EINVAL).
  opcode_unsupported,
  /// A datagram without an address, or with one of another protection domain (EINVAL).
  bad_address,
  /// A window can't be bound so (EINVAL).
  bad_binding,
  /// The queue pair takes its receive requests from a shared queue (EINVAL).
  shared_queue,
};

/// What stands in front of a datagram's transport headers, in the code of the completions of
/// ConnectX devices.
enum class NetworkHeader : std::uint8_t { grh = 0, ipv6 = 1, ipv4 = 2 };

/// One entry of a completion queue.
struct Completion {
  std::uint64_t wr_id = 0;
  Time time{};
  std::uint32_t byte_len = 0;
  /// Immediate data or the invalidated key, as `with_imm` and `with_inv` tell.
  std::uint32_t imm_or_rkey = 0;
  Qpn qpn{};
  Qpn src_qpn{};
  WcStatus status = WcStatus::success;
  WcOpcode opcode = WcOpcode::send;
  bool with_imm = false;
  bool with_inv = false;
  bool with_grh = false;
  std::uint8_t sl = 0;
  std::uint8_t pkey_index = 0;
  /// Where with_grh is set.
  NetworkHeader network_header = NetworkHeader::grh;
};

/// Where completions go; a completion queue implements it.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  /// `solicited`: the message carried the solicited event bit, or the status is an error.
  virtual void complete(const Completion& completion, bool solicited) = 0;
};

/// IBTA vol 1, 9.7.7: a message has at most 2^31 bytes.
inline constexpr std::uint64_t message_bytes_max = std::uint64_t{1} << 31;

}  // namespace verbena
