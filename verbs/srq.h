// A shared receive queue of a program.
#pragma once

#include <cstdint>

#include "nic_model/nic.h"
#include "verbs/context.h"
#include "verbs/pd.h"

namespace verbena::verbs {

struct SharedReceiveQueue : ibv_srq, ObjectLink, Placed {
  static constexpr ResourceType resource_type = ResourceType::shared_receive_queue;

  SharedReceiveQueue(Context& context, ibv_pd* pd, void* srq_context);
  ~SharedReceiveQueue();

  [[nodiscard]] static SharedReceiveQueue& of(ibv_srq* srq) {
    return static_cast<SharedReceiveQueue&>(*srq);
  }
  /// The Nic's SRQ carries our address.
  [[nodiscard]] std::uintptr_t cookie() const { return reinterpret_cast<std::uintptr_t>(this); }
  [[nodiscard]] static SharedReceiveQueue& of_cookie(std::uintptr_t cookie) {
    return *reinterpret_cast<SharedReceiveQueue*>(cookie);
  }
  [[nodiscard]] Context& owner() const { return Context::of(context); }

  /// Takes the queue from the NIC: from now on no events come.
  Result<void, nic::NicError> release();

  void acknowledge_async_event();
  /// Returns when the program has acknowledged all events of this queue that it fetched.
  void wait_for_acknowledgements();

  ports::Engine& engine;
  /// Null after release(): destroyed, or the context has been closed over it.
  nic::Srq* nic_srq = nullptr;
  /// Events that a program has fetched, under the lock of the context's queue.
  std::uint32_t async_events_delivered = 0;
};

}  // namespace verbena::verbs
