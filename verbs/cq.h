// A completion queue of a program.
#pragma once

#include <cstdint>

#include "nic_model/nic.h"
#include "verbs/comp_channel.h"
#include "verbs/context.h"
#include "verbs/errors.h"
#include "verbs/pd.h"
#include "verbs/spin_lock.h"

namespace verbena::verbs {

/// An ibv_cq_ex begins with the members of an ibv_cq, and programs cast one to the other; so ours
/// is always the extended struct, whichever way it was created.
struct CompletionQueue : ibv_cq_ex, ObjectLink, ChannelEntry, Placed {
  static constexpr ResourceType resource_type = ResourceType::completion_queue;

  CompletionQueue(Context& context, ibv_comp_channel* channel, void* cq_context);
  ~CompletionQueue();

  [[nodiscard]] static CompletionQueue& of(ibv_cq* cq) {
    return of(reinterpret_cast<ibv_cq_ex*>(cq));
  }
  [[nodiscard]] static CompletionQueue& of(ibv_cq_ex* cq) {
    return static_cast<CompletionQueue&>(*cq);
  }
  /// What programs hold that don't use the extended interface.
  [[nodiscard]] ibv_cq* plain() { return ibv_cq_ex_to_cq(this); }
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
  /// What the read functions of the extended interface tell of (cq_ex.cpp).
  Completion current;
  /// Events that a program has fetched, under the lock of the context's queue.
  std::uint32_t async_events_delivered = 0;
};

/// While it lives nobody takes completions out of two queues, which may be one and the same. Of XRC
/// queue pairs one or both are null.
class PollersHeld {
 public:
  PollersHeld(ibv_cq* one, ibv_cq* other);
  ~PollersHeld();
  PollersHeld(const PollersHeld&) = delete;
  PollersHeld& operator=(const PollersHeld&) = delete;

 private:
  SpinLock* first_;
  SpinLock* second_;
};

/// The service level of a completion. RoCE has none; of a datagram it says what stood in front of
/// it (IBTA vol 1, A17.4.5.1 wants that told), as ConnectX devices have it: the kind of header, and
/// 8 if it came in UDP. UCX finds the receiver's address by it.
[[nodiscard]] std::uint8_t service_level(const Completion& completion);
/// The flags of a completion, as both interfaces tell them (ibv_wc_flags).
[[nodiscard]] unsigned wc_flags(const Completion& completion);
/// Immediate data in wire order, or the key that was invalidated.
[[nodiscard]] std::uint32_t imm_or_rkey(const Completion& completion);

struct CqInitAttr {
  std::uint32_t cqe = 0;
  void* cq_context = nullptr;
  ibv_comp_channel* channel = nullptr;
  std::uint32_t comp_vector = 0;
  /// A parent domain whose memory the queue shall lie in, or null.
  ibv_pd* parent_domain = nullptr;
};
[[nodiscard]] Created<CompletionQueue> create_cq(Context& context, const CqInitAttr& attr);

}  // namespace verbena::verbs
