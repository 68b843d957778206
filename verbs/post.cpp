// Posting work: the data path from the program to the NIC. A whole list of requests goes under one
// lock, nothing is allocated.

#include <arpa/inet.h>

#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include "verbs/ah.h"
#include "verbs/errors.h"
#include "verbs/mw.h"
#include "verbs/qp.h"
#include "verbs/srq.h"

namespace verbena::verbs {
namespace {

static_assert(std::is_unsigned_v<std::underlying_type_t<ibv_wr_opcode>>);
static_assert(static_cast<int>(WrOpcode::rdma_write) == IBV_WR_RDMA_WRITE);
static_assert(static_cast<int>(WrOpcode::send_with_imm) == IBV_WR_SEND_WITH_IMM);
static_assert(static_cast<int>(WrOpcode::rdma_read) == IBV_WR_RDMA_READ);
static_assert(static_cast<int>(WrOpcode::atomic_fetch_and_add) == IBV_WR_ATOMIC_FETCH_AND_ADD);
static_assert(static_cast<int>(WrOpcode::bind_mw) == IBV_WR_BIND_MW);
static_assert(static_cast<int>(WrOpcode::send_with_inv) == IBV_WR_SEND_WITH_INV);
static_assert(static_cast<int>(WrOpcode::atomic_write) == IBV_WR_ATOMIC_WRITE);

/// Room for the SGEs of one request on their way to the Nic, which keeps none of them.
using SgeRoom = std::array<Sge, nic::sges_of_any_profile>;

/// A program that says it has more than the `most` its queue was created for may have less: nothing
/// of the list is read then.
Result<std::span<const Sge>, PostError> translate(const ibv_sge* list, int count,
                                                  std::uint32_t most, SgeRoom& room) {
  if (count < 0 || static_cast<std::uint32_t>(count) > most) {
    return std::unexpected(PostError::too_many_sges);
  }
  const auto sges = std::span(room).first(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < sges.size(); ++i) {
    sges[i] = {.addr = Va{list[i].addr}, .length = list[i].length, .lkey = Lkey{list[i].lkey}};
  }
  return sges;
}

bool is_known(unsigned opcode) {
  return opcode <= IBV_WR_SEND_WITH_INV || opcode == IBV_WR_ATOMIC_WRITE;
}

Result<void, PostError> post_one(nic::Nic& nic, Time now, QueuePair& qp, const ibv_send_wr& wr) {
  SgeRoom room;
  const std::uint32_t most = nic::qp_caps(*qp.nic_qp).send_sge_max;
  const auto sges = translate(wr.sg_list, wr.num_sge, most, room);
  if (!sges) {
    return std::unexpected(sges.error());
  }
  const auto opcode = number_in(wr.opcode);
  if (!is_known(opcode)) {
    return std::unexpected(PostError::opcode_unsupported);
  }
  SendWr request{.wr_id = wr.wr_id,
                 .opcode = static_cast<WrOpcode>(opcode),
                 .signaled = (wr.send_flags & IBV_SEND_SIGNALED) != 0,
                 .solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0,
                 .fence = (wr.send_flags & IBV_SEND_FENCE) != 0,
                 .inline_data = (wr.send_flags & IBV_SEND_INLINE) != 0,
                 .sges = *sges};
  if (qp.qp_base.qp_type == IBV_QPT_UD) {
    // The same bytes of the request mean something else for other services.
    if (wr.wr.ud.ah != nullptr) {
      request.address = &nic::handle_of(*AddressHandleObject::of(wr.wr.ud.ah).nic_ah);
    }
    request.remote_qpn = Qpn{wr.wr.ud.remote_qpn & qpn_mask};
    request.remote_qkey = Qkey{wr.wr.ud.remote_qkey};
    request.imm = ImmData{ntohl(wr.imm_data)};
    return nic.post_send(now, *qp.nic_qp, request);
  }
  request.remote_srqn = Srqn{wr.qp_type.xrc.remote_srqn & qpn_mask};
  switch (request.opcode) {
    case WrOpcode::atomic_cmp_and_swp:
    case WrOpcode::atomic_fetch_and_add:
      request.remote_addr = Va{wr.wr.atomic.remote_addr};
      request.rkey = Rkey{wr.wr.atomic.rkey};
      request.compare_add = wr.wr.atomic.compare_add;
      request.swap = wr.wr.atomic.swap;
      break;
    case WrOpcode::local_inv:
    case WrOpcode::send_with_inv:
      request.invalidate_rkey = Rkey{wr.invalidate_rkey};
      break;
    case WrOpcode::bind_mw: {
      const auto binding = binding_of(*wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info);
      if (!binding) {
        return std::unexpected(PostError::bad_binding);
      }
      request.binding = *binding;
      break;
    }
    default:
      request.imm = ImmData{ntohl(wr.imm_data)};
      request.remote_addr = Va{wr.wr.rdma.remote_addr};
      request.rkey = Rkey{wr.wr.rdma.rkey};
      break;
  }
  return nic.post_send(now, *qp.nic_qp, request);
}

Result<void, PostError> post_one(nic::Nic& nic, Time now, QueuePair& qp, const ibv_recv_wr& wr) {
  SgeRoom room;
  const std::uint32_t most = nic::qp_caps(*qp.nic_qp).recv_sge_max;
  const auto sges = translate(wr.sg_list, wr.num_sge, most, room);
  if (!sges) {
    return std::unexpected(sges.error());
  }
  return nic.post_recv(now, *qp.nic_qp, {.wr_id = wr.wr_id, .sges = *sges});
}

Result<void, PostError> post_one(nic::Nic& nic, Time, SharedReceiveQueue& srq,
                                 const ibv_recv_wr& wr) {
  SgeRoom room;
  const std::uint32_t most = nic.query_srq(*srq.nic_srq).sge_max;
  const auto sges = translate(wr.sg_list, wr.num_sge, most, room);
  if (!sges) {
    return std::unexpected(sges.error());
  }
  return nic.post_srq_recv(*srq.nic_srq, {.wr_id = wr.wr_id, .sges = *sges});
}

/// Posts in order up to the first request that is refused, which *bad_wr names.
template <class Queue, class Wr>
Errno post_list(Queue& queue, Wr* wr, Wr** bad_wr) {
  if (queue.engine.is_dead()) {
    *bad_wr = wr;
    return EIO;
  }
  const auto post_all = [&](nic::Nic& nic, Time now) -> Errno {
    for (; wr != nullptr; wr = wr->next) {
      if (const auto posted = post_one(nic, now, queue, *wr); !posted) {
        *bad_wr = wr;
        return errno_of(posted);
      }
    }
    return 0;
  };
  if constexpr (std::is_same_v<Wr, ibv_send_wr>) {
    return queue.engine.post_send(post_all);
  } else {
    return queue.engine.post_recv(post_all);
  }
}

}  // namespace

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
  return post_list(QueuePair::of(qp), wr, bad_wr);
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
  return post_list(QueuePair::of(qp), wr, bad_wr);
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
  return post_list(SharedReceiveQueue::of(srq), wr, bad_wr);
}

}  // namespace verbena::verbs
