#include "verbs/wr_builder.h"

#include <arpa/inet.h>

#include "verbs/ah.h"
#include "verbs/mw.h"
#include "verbs/qp.h"

namespace verbena::verbs {

void WrBuilder::start() {
  mutex_.lock();
  error_ = 0;
  requests_.clear();
  sges_.clear();
  inline_bytes_.clear();
}

void WrBuilder::begin(const SendWr& wr) { requests_.push_back({.wr = wr}); }

void WrBuilder::set_sges(std::span<const ibv_sge> sges) {
  if (requests_.empty()) {
    return fail(EINVAL);
  }
  Request& request = requests_.back();
  request.wr.inline_data = false;
  request.first = sges_.size();
  request.count = sges.size();
  for (const ibv_sge& sge : sges) {
    sges_.push_back({.addr = Va{sge.addr}, .length = sge.length, .lkey = Lkey{sge.lkey}});
  }
}

void WrBuilder::set_destination(const AddressHandle* address, Qpn qpn, Qkey qkey) {
  if (requests_.empty()) {
    return fail(EINVAL);
  }
  SendWr& wr = requests_.back().wr;
  wr.address = address;
  wr.remote_qpn = qpn;
  wr.remote_qkey = qkey;
}

void WrBuilder::set_srq(Srqn number) {
  if (requests_.empty()) {
    return fail(EINVAL);
  }
  requests_.back().wr.remote_srqn = number;
}

void WrBuilder::add_inline(ByteView bytes) {
  if (requests_.empty()) {
    return fail(EINVAL);
  }
  Request& request = requests_.back();
  if (!request.wr.inline_data) {
    request.wr.inline_data = true;
    request.first = inline_bytes_.size();
    request.count = 0;
  }
  // Longer than any queue takes: not worth a copy.
  if (bytes.size() > message_bytes_max - request.count) {
    return fail(EINVAL);
  }
  request.count += bytes.size();
  inline_bytes_.insert(inline_bytes_.end(), bytes.begin(), bytes.end());
}

void WrBuilder::fail(Errno error) {
  if (error_ == 0) {
    error_ = error;
  }
}

Errno WrBuilder::complete(QueuePair& qp) {
  const Errno error = error_ != 0 ? error_ : post_all(qp);
  mutex_.unlock();
  return error;
}

void WrBuilder::abort() { mutex_.unlock(); }

Errno WrBuilder::post_all(QueuePair& qp) {
  if (qp.engine.is_dead()) {
    return EIO;
  }
  return qp.engine.post_send([&](nic::Nic& nic, Time now) -> Errno {
    if (requests_.size() > nic::send_room(*qp.nic_qp)) {
      return ENOMEM;
    }
    for (Request& request : requests_) {
      Sge inline_sge;
      if (request.wr.inline_data) {
        const auto* data = inline_bytes_.data() + request.first;
        inline_sge = {.addr = Va{reinterpret_cast<std::uintptr_t>(data)},
                      .length = static_cast<std::uint32_t>(request.count)};
        request.wr.sges = {&inline_sge, 1};
      } else {
        request.wr.sges = std::span(sges_).subspan(request.first, request.count);
      }
      if (const auto posted = nic.post_send(now, *qp.nic_qp, request.wr); !posted) {
        return errno_of(posted);
      }
    }
    return 0;
  });
}

namespace {

QueuePair& queue_pair(ibv_qp_ex* qp) { return static_cast<QueuePair&>(*qp); }

/// Runs a step of building. Memory that runs out fails the batch: these functions return nothing.
template <class Step>
void build(ibv_qp_ex* qp, Step&& step) noexcept {
  WrBuilder& builder = *queue_pair(qp).builder;
  try {
    step(builder);
  } catch (const std::exception&) {
    builder.fail(ENOMEM);
  }
}

/// A request with what the program wrote to the public members wr_id and wr_flags.
SendWr request(const ibv_qp_ex* qp, WrOpcode opcode) {
  return {.wr_id = qp->wr_id,
          .opcode = opcode,
          .signaled = (qp->wr_flags & IBV_SEND_SIGNALED) != 0,
          .solicited = (qp->wr_flags & IBV_SEND_SOLICITED) != 0,
          .fence = (qp->wr_flags & IBV_SEND_FENCE) != 0,
          .sges = {}};
}

SendWr rdma_request(const ibv_qp_ex* qp, WrOpcode opcode, std::uint32_t rkey,
                    std::uint64_t remote_addr) {
  SendWr wr = request(qp, opcode);
  wr.rkey = Rkey{rkey};
  wr.remote_addr = Va{remote_addr};
  return wr;
}

void wr_send(ibv_qp_ex* qp) {
  build(qp, [&](WrBuilder& builder) { builder.begin(request(qp, WrOpcode::send)); });
}

void wr_send_imm(ibv_qp_ex* qp, __be32 imm) {
  build(qp, [&](WrBuilder& builder) {
    SendWr wr = request(qp, WrOpcode::send_with_imm);
    wr.imm = ImmData{ntohl(imm)};
    builder.begin(wr);
  });
}

void wr_rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr) {
  build(qp, [&](WrBuilder& builder) {
    builder.begin(rdma_request(qp, WrOpcode::rdma_write, rkey, remote_addr));
  });
}

void wr_rdma_write_imm(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr, __be32 imm) {
  build(qp, [&](WrBuilder& builder) {
    SendWr wr = rdma_request(qp, WrOpcode::rdma_write_with_imm, rkey, remote_addr);
    wr.imm = ImmData{ntohl(imm)};
    builder.begin(wr);
  });
}

void wr_rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr) {
  build(qp, [&](WrBuilder& builder) {
    builder.begin(rdma_request(qp, WrOpcode::rdma_read, rkey, remote_addr));
  });
}

void wr_atomic_cmp_swp(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr,
                       std::uint64_t compare, std::uint64_t swap) {
  build(qp, [&](WrBuilder& builder) {
    SendWr wr = rdma_request(qp, WrOpcode::atomic_cmp_and_swp, rkey, remote_addr);
    wr.compare_add = compare;
    wr.swap = swap;
    builder.begin(wr);
  });
}

void wr_atomic_fetch_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr,
                         std::uint64_t add) {
  build(qp, [&](WrBuilder& builder) {
    SendWr wr = rdma_request(qp, WrOpcode::atomic_fetch_and_add, rkey, remote_addr);
    wr.compare_add = add;
    builder.begin(wr);
  });
}

/// The value is copied here, so it goes as inline data.
void wr_atomic_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr,
                     const void* value) {
  build(qp, [&](WrBuilder& builder) {
    builder.begin(rdma_request(qp, WrOpcode::atomic_write, rkey, remote_addr));
    builder.add_inline({static_cast<const std::byte*>(value), atomic_write_bytes});
  });
}

void wr_send_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
  build(qp, [&](WrBuilder& builder) {
    SendWr wr = request(qp, WrOpcode::send_with_inv);
    wr.invalidate_rkey = Rkey{rkey};
    builder.begin(wr);
  });
}

void wr_local_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
  build(qp, [&](WrBuilder& builder) {
    SendWr wr = request(qp, WrOpcode::local_inv);
    wr.invalidate_rkey = Rkey{rkey};
    builder.begin(wr);
  });
}

void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info* info) {
  build(qp, [&](WrBuilder& builder) {
    const auto binding = binding_of(*mw, rkey, *info);
    if (!binding) {
      return builder.fail(binding.error());
    }
    SendWr wr = request(qp, WrOpcode::bind_mw);
    wr.binding = *binding;
    builder.begin(wr);
  });
}

void wr_set_xrc_srqn(ibv_qp_ex* qp, std::uint32_t srqn) {
  build(qp, [&](WrBuilder& builder) { builder.set_srq(Srqn{srqn & qpn_mask}); });
}

void wr_set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t addr, std::uint32_t length) {
  const ibv_sge sge{.addr = addr, .length = length, .lkey = lkey};
  build(qp, [&](WrBuilder& builder) { builder.set_sges({&sge, 1}); });
}

void wr_set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) {
  build(qp, [&](WrBuilder& builder) { builder.set_sges({list, count}); });
}

void wr_set_inline_data(ibv_qp_ex* qp, void* addr, std::size_t length) {
  build(qp, [&](WrBuilder& builder) {
    builder.add_inline({static_cast<const std::byte*>(addr), length});
  });
}

void wr_set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) {
  build(qp, [&](WrBuilder& builder) {
    for (const ibv_data_buf& part : std::span(list, count)) {
      builder.add_inline({static_cast<const std::byte*>(part.addr), part.length});
    }
  });
}

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t remote_qpn,
                    std::uint32_t remote_qkey) {
  build(qp, [&](WrBuilder& builder) {
    builder.set_destination(&nic::handle_of(*AddressHandleObject::of(ah).nic_ah),
                            Qpn{remote_qpn & qpn_mask}, Qkey{remote_qkey});
  });
}

void wr_start(ibv_qp_ex* qp) { queue_pair(qp).builder->start(); }
int wr_complete(ibv_qp_ex* qp) { return queue_pair(qp).builder->complete(queue_pair(qp)); }
void wr_abort(ibv_qp_ex* qp) { queue_pair(qp).builder->abort(); }

}  // namespace

void install_wr_functions(QueuePair& qp, std::uint64_t send_ops) {
  qp.builder = std::make_unique<WrBuilder>();
  const auto install = [send_ops](std::uint64_t operation, auto& slot, auto* function) {
    if ((send_ops & operation) != 0) {
      slot = function;
    }
  };
  install(IBV_QP_EX_WITH_SEND, qp.wr_send, verbs::wr_send);
  install(IBV_QP_EX_WITH_SEND_WITH_IMM, qp.wr_send_imm, verbs::wr_send_imm);
  install(IBV_QP_EX_WITH_RDMA_WRITE, qp.wr_rdma_write, verbs::wr_rdma_write);
  install(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, qp.wr_rdma_write_imm, verbs::wr_rdma_write_imm);
  install(IBV_QP_EX_WITH_RDMA_READ, qp.wr_rdma_read, verbs::wr_rdma_read);
  if (qp.qp_base.qp_type == IBV_QPT_UD) {
    qp.wr_set_ud_addr = verbs::wr_set_ud_addr;
  }
  install(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, qp.wr_atomic_cmp_swp, verbs::wr_atomic_cmp_swp);
  install(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, qp.wr_atomic_fetch_add, verbs::wr_atomic_fetch_add);
  install(IBV_QP_EX_WITH_ATOMIC_WRITE, qp.wr_atomic_write, verbs::wr_atomic_write);
  install(IBV_QP_EX_WITH_SEND_WITH_INV, qp.wr_send_inv, verbs::wr_send_inv);
  install(IBV_QP_EX_WITH_LOCAL_INV, qp.wr_local_inv, verbs::wr_local_inv);
  install(IBV_QP_EX_WITH_BIND_MW, qp.wr_bind_mw, verbs::wr_bind_mw);
  if (qp.qp_base.qp_type == IBV_QPT_XRC_SEND) {
    qp.wr_set_xrc_srqn = verbs::wr_set_xrc_srqn;
  }
  qp.wr_set_sge = verbs::wr_set_sge;
  qp.wr_set_sge_list = verbs::wr_set_sge_list;
  qp.wr_set_inline_data = verbs::wr_set_inline_data;
  qp.wr_set_inline_data_list = verbs::wr_set_inline_data_list;
  qp.wr_start = verbs::wr_start;
  qp.wr_complete = verbs::wr_complete;
  qp.wr_abort = verbs::wr_abort;
}

}  // namespace verbena::verbs
