// A queue pair of a program.
#pragma once

#include <cstdint>
#include <memory>

#include "nic_model/nic.h"
#include "verbs/context.h"
#include "verbs/pd.h"
#include "verbs/wr_builder.h"

namespace verbena::verbs {

/// rdma-core lays ibv_qp_ex over ibv_qp; so is ours, whether created with ibv_create_qp() or
/// ibv_create_qp_ex().
struct QueuePair : ibv_qp_ex, ObjectLink, Placed {
  static constexpr ResourceType resource_type = ResourceType::queue_pair;

  QueuePair(Context& context, const ibv_qp_init_attr& attr, ibv_pd* pd);
  ~QueuePair();

  [[nodiscard]] static QueuePair& of(ibv_qp* qp) {
    return static_cast<QueuePair&>(*reinterpret_cast<ibv_qp_ex*>(qp));
  }
  /// The Nic's QP carries our address.
  [[nodiscard]] std::uintptr_t cookie() const { return reinterpret_cast<std::uintptr_t>(this); }
  [[nodiscard]] static QueuePair& of_cookie(std::uintptr_t cookie) {
    return *reinterpret_cast<QueuePair*>(cookie);
  }
  [[nodiscard]] Context& owner() const { return Context::of(qp_base.context); }

  /// Detaches from all multicast groups, without which there is no release.
  void leave_groups();
  /// Takes the queue pair from the NIC: from now on no events come.
  Result<void, nic::NicError> release();

  void acknowledge_async_event();
  /// Returns when the program has acknowledged all events of this queue pair that it fetched.
  void wait_for_acknowledgements();

  ports::Engine& engine;
  /// Null after release(): destroyed, or the context has been closed over it.
  nic::Qp* nic_qp = nullptr;
  const bool signal_all;
  /// The rate that the address vector asks for, which holds from RTS on.
  std::uint8_t static_rate = IBV_RATE_MAX;
  /// For the extended way to post; null if the program didn't ask for it at creation.
  std::unique_ptr<WrBuilder> builder;
  /// Events that a program has fetched, under the lock of the context's queue.
  std::uint32_t async_events_delivered = 0;
};

}  // namespace verbena::verbs
