// The extended way to post: ibv_wr_start(), then for each request one ibv_wr_<operation>() and its
// setters, then ibv_wr_complete(), which posts all of them or none, or ibv_wr_abort(). See the
// manual page ibv_wr_post(3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/bytes.h"
#include "proto/work.h"
#include "verbs/abi.h"
#include "verbs/errors.h"

namespace verbena::verbs {

struct QueuePair;

/// The requests of one queue pair between start and complete. The vectors keep their memory: after
/// the first batches nothing is allocated.
class WrBuilder {
 public:
  /// Locks the builder until complete() or abort(), as programs expect of ibv_wr_start().
  void start();
  /// A new request. The setters that follow belong to it.
  void begin(const SendWr& wr);
  void set_sges(std::span<const ibv_sge> sges);
  void set_destination(const AddressHandle* address, Qpn qpn, Qkey qkey);
  void set_srq(Srqn number);
  /// Copies the data.
  void add_inline(ByteView bytes);
  /// The batch fails: its complete() returns `error`.
  void fail(Errno error);
  [[nodiscard]] Errno complete(QueuePair& qp);
  void abort();

 private:
  struct Request {
    SendWr wr;
    /// Where its part of sges_ begins and how long it is; for inline data, of inline_bytes_.
    std::size_t first = 0;
    std::size_t count = 0;
  };
  [[nodiscard]] Errno post_all(QueuePair& qp);

  std::mutex mutex_;
  Errno error_ = 0;
  std::vector<Request> requests_;
  std::vector<Sge> sges_;
  std::vector<std::byte> inline_bytes_;
};

/// The operations that can be asked for at creation (ibv_qp_create_send_ops_flags).
[[nodiscard]] constexpr std::uint64_t send_ops_of(ibv_qp_type type) {
  constexpr std::uint64_t datagram = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr std::uint64_t unreliable =
      datagram | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  switch (type) {
    case IBV_QPT_UD:
      return datagram;
    case IBV_QPT_UC:
      return unreliable;
    case IBV_QPT_XRC_RECV:
      return 0;
    case IBV_QPT_XRC_SEND:
      return unreliable | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
             IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
             IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
    default:
      return unreliable | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
             IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_WRITE |
             IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
  }
}

/// What ibv_wr_atomic_write() copies: a queue pair with that operation has room for so much inline.
inline constexpr std::uint32_t atomic_write_bytes = 8;

/// Lets programs post to `qp` the extended way, with the operations of `send_ops`.
void install_wr_functions(QueuePair& qp, std::uint64_t send_ops);

}  // namespace verbena::verbs
