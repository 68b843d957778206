// Which of the two sides an object of the program belongs to: ours, or the host's real libibverbs
// (real_library.h). Public functions ask first, and hand over what isn't ours:
//
//   if (is_real(pd)) {
//     return real_verbs().ibv_dealloc_pd(pd);
//   }
//
// The functions that programs call through pointers in their objects, all of the data path among
// them, need no such question: an object of the real library has that library's pointers.
//
// A device is ours by the mark behind it, and every other object by its context, whose place in
// memory says whose it is (context_arena.h). So nothing is read of a context, which may be gone:
// programs destroy objects after closing their device.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "verbs/abi.h"
#include "verbs/abi_layout.h"
#include "verbs/context_arena.h"

// Declared by no public header.
extern "C" {
int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, unsigned* type);
int ibv_dontfork_range(void* base, std::size_t bytes);
int ibv_dofork_range(void* base, std::size_t bytes);
}

namespace verbena::verbs {

/// The public functions that are handed over, with their versions in rdma-core. Whatever takes an
/// object of the program is here.
#define VERBENA_REAL_VERBS(X)                   \
  X("IBVERBS_1.0", ibv_create_comp_channel)     \
  X("IBVERBS_1.0", ibv_destroy_comp_channel)    \
  X("IBVERBS_1.1", ibv_ack_async_event)         \
  X("IBVERBS_1.1", ibv_ack_cq_events)           \
  X("IBVERBS_1.1", ibv_alloc_pd)                \
  X("IBVERBS_1.1", ibv_attach_mcast)            \
  X("IBVERBS_1.1", ibv_close_device)            \
  X("IBVERBS_1.1", ibv_create_ah)               \
  X("IBVERBS_1.1", ibv_create_ah_from_wc)       \
  X("IBVERBS_1.1", ibv_create_cq)               \
  X("IBVERBS_1.1", ibv_create_qp)               \
  X("IBVERBS_1.1", ibv_create_srq)              \
  X("IBVERBS_1.1", ibv_dealloc_pd)              \
  X("IBVERBS_1.1", ibv_dereg_mr)                \
  X("IBVERBS_1.1", ibv_destroy_ah)              \
  X("IBVERBS_1.1", ibv_destroy_cq)              \
  X("IBVERBS_1.1", ibv_destroy_qp)              \
  X("IBVERBS_1.1", ibv_destroy_srq)             \
  X("IBVERBS_1.1", ibv_detach_mcast)            \
  X("IBVERBS_1.1", ibv_dofork_range)            \
  X("IBVERBS_1.1", ibv_dontfork_range)          \
  X("IBVERBS_1.1", ibv_fork_init)               \
  X("IBVERBS_1.1", ibv_free_device_list)        \
  X("IBVERBS_1.1", ibv_get_async_event)         \
  X("IBVERBS_1.1", ibv_get_cq_event)            \
  X("IBVERBS_1.1", ibv_get_device_guid)         \
  X("IBVERBS_1.1", ibv_get_device_list)         \
  X("IBVERBS_1.1", ibv_init_ah_from_wc)         \
  X("IBVERBS_1.1", ibv_modify_qp)               \
  X("IBVERBS_1.1", ibv_modify_srq)              \
  X("IBVERBS_1.1", ibv_open_device)             \
  X("IBVERBS_1.1", ibv_query_device)            \
  X("IBVERBS_1.1", ibv_query_gid)               \
  X("IBVERBS_1.1", ibv_query_pkey)              \
  X("IBVERBS_1.1", ibv_query_port)              \
  X("IBVERBS_1.1", ibv_query_qp)                \
  X("IBVERBS_1.1", ibv_query_srq)               \
  X("IBVERBS_1.1", ibv_reg_mr)                  \
  X("IBVERBS_1.1", ibv_rereg_mr)                \
  X("IBVERBS_1.1", ibv_resize_cq)               \
  X("IBVERBS_1.1", ibv_resolve_eth_l2_from_gid) \
  X("IBVERBS_1.5", ibv_get_pkey_index)          \
  X("IBVERBS_1.6", ibv_qp_to_qp_ex)             \
  X("IBVERBS_1.7", ibv_reg_mr_iova)             \
  X("IBVERBS_1.8", ibv_reg_mr_iova2)            \
  X("IBVERBS_1.9", ibv_get_device_index)        \
  X("IBVERBS_1.10", ibv_import_device)          \
  X("IBVERBS_1.10", ibv_import_mr)              \
  X("IBVERBS_1.10", ibv_import_pd)              \
  X("IBVERBS_1.10", ibv_query_ece)              \
  X("IBVERBS_1.10", ibv_set_ece)                \
  X("IBVERBS_1.10", ibv_unimport_mr)            \
  X("IBVERBS_1.10", ibv_unimport_pd)            \
  X("IBVERBS_1.11", _ibv_query_gid_ex)          \
  X("IBVERBS_1.11", _ibv_query_gid_table)       \
  X("IBVERBS_1.12", ibv_reg_dmabuf_mr)          \
  X("IBVERBS_1.13", ibv_import_dm)              \
  X("IBVERBS_1.13", ibv_is_fork_initialized)    \
  X("IBVERBS_1.13", ibv_unimport_dm)            \
  X("IBVERBS_1.14", ibv_query_qp_data_in_order) \
  X("IBVERBS_PRIVATE_34", ibv_query_gid_type)

/// What an older library than ours doesn't have.
template <class Function>
struct Unavailable;
template <class Result, class... Arguments>
struct Unavailable<Result (*)(Arguments...)> {
  static Result call(Arguments...) {
    errno = EOPNOTSUPP;
    if constexpr (std::is_pointer_v<Result>) {
      return nullptr;
    } else if constexpr (!std::is_void_v<Result>) {
      return static_cast<Result>(EOPNOTSUPP);
    }
  }
};

/// The functions of the real library, under their own names.
struct RealVerbs {
  // NOLINTBEGIN(bugprone-macro-parentheses, readability-identifier-naming): they are names.
#define VERBENA_MEMBER(version, name) \
  decltype(&::name) name = &Unavailable<decltype(&::name)>::call;
  VERBENA_REAL_VERBS(VERBENA_MEMBER)
#undef VERBENA_MEMBER
  // NOLINTEND(bugprone-macro-parentheses, readability-identifier-naming)
};

/// The table, once the real library is loaded; null in nearly all processes. Set before the program
/// gets its first device, and never changed afterwards.
extern std::atomic<const RealVerbs*> loaded_real_verbs;

[[nodiscard]] inline bool has_real_verbs() {
  return loaded_real_verbs.load(std::memory_order_acquire) != nullptr;
}

/// Only where has_real_verbs() or is_real() says so.
[[nodiscard]] inline const RealVerbs& real_verbs() {
  return *loaded_real_verbs.load(std::memory_order_acquire);
}

/// What stands behind our devices where rdma-core has the functions of the device's provider.
extern const char our_device_mark;

[[nodiscard]] inline bool is_real(const ibv_device* device) {
  return has_real_verbs() && reinterpret_cast<const VerbsDevice*>(device)->ops != &our_device_mark;
}

[[nodiscard]] inline bool is_real(const ibv_context* context) {
  return has_real_verbs() && !ContextArena::contains(context);
}

/// Of a protection domain, a memory region, a queue ...: the context is the first member of all.
template <class Object>
  requires requires(const Object& object) { object.context->abi_compat; }
[[nodiscard]] bool is_real(const Object* object) {
  return has_real_verbs() && !ContextArena::contains(object->context);
}

}  // namespace verbena::verbs
