// A completion queue of a program.
#pragma once

#include <cstdint>

#include "nic_model/nic.h"
#include "verbs/comp_channel.h"
#include "verbs/context.h"
#include "verbs/spin_lock.h"

namespace verbena::verbs {

struct CompletionQueue : ibv_cq, ObjectLink, ChannelEntry {
  CompletionQueue(Context& context, ibv_comp_channel* channel, void* cq_context);
  ~CompletionQueue();

  [[nodiscard]] static CompletionQueue& of(ibv_cq* cq) {
    return static_cast<CompletionQueue&>(*cq);
  }
  /// The Nic's CQ carries our address.
  [[nodiscard]] std::uintptr_t cookie() const { return reinterpret_cast<std::uintptr_t>(this); }
  [[nodiscard]] static CompletionQueue& of_cookie(std::uintptr_t cookie) {
    return *reinterpret_cast<CompletionQueue*>(cookie);
  }
  [[nodiscard]] Context& owner() const { return Context::of(context); }

  /// Takes the queue from the NIC: from now on no events come.
  Result<void, nic::NicError> release();

  void acknowledge_events(std::uint32_t count);
  void acknowledge_async_event();
  /// Returns when the program has acknowledged all events of this queue that it fetched.
  void wait_for_acknowledgements();

  ports::Engine& engine;
  /// Null after release(): destroyed, or the context has been closed over it.
  nic::Cq* nic_cq = nullptr;
  /// One thread at a time takes completions out.
  SpinLock poll_lock;
  /// Events that a program has fetched, under the lock of the context's queue.
  std::uint32_t async_events_delivered = 0;
};

}  // namespace verbena::verbs
