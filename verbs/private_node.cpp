// IBVERBS_PRIVATE_34: the interface between rdma-core's library and its provider plug-ins.
//
// perftest, libfabric and pyverbs link to libmlx5 and libefa, which import nearly all of it; a
// missing name keeps the program from starting. Providers call most of these functions only for a
// device of their own, which this library never has. So each is a jump: to the function of the
// real library if there is one beside us (real_library.h), and else to one that refuses. The
// exceptions are the registration in each provider's constructor, which is remembered for the real
// library, and __verbs_log(), which providers call for any context. (ibv_query_gid_type() is in
// query.cpp.)
//
// The header of this interface is private to rdma-core. A jump passes all arguments on, whatever
// they are; refusing needs none, and on x86-64 a callee may ignore what it was given.

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "ports/log.h"
#include "verbs/abi.h"
#include "verbs/real_library.h"

namespace verbena::verbs {
namespace {

/// Most return an errno value.
int refuse() { return EOPNOTSUPP; }

/// A count of completions, negative on failure.
int refuse_count() { return -EOPNOTSUPP; }

unsigned refuse_number() { return 0; }

int refuse_minus_one() {
  errno = EOPNOTSUPP;
  return -1;
}

void* refuse_object() {
  errno = EOPNOTSUPP;
  return nullptr;
}

void ignore() {}

/// Providers that a program links or loads; rdma-core 44 has 17.
constexpr std::size_t waiting_providers_max = 64;

/// Constructors run one after the other, under the loader's lock.
std::array<const void*, waiting_providers_max> waiting_providers;
std::size_t waiting_provider_count = 0;

/// `operations` is the provider's table, which lives as long as the provider.
void remember_provider(const void* operations) {
  if (waiting_provider_count < waiting_providers.size()) {
    waiting_providers[waiting_provider_count++] = operations;
    return;
  }
  ports::report("more than 64 providers of libibverbs; the devices of the last won't be found");
}

}  // namespace

#define VERBENA_PRIVATE_SYMBOLS(X)                \
  X(execute_ioctl, refuse)                        \
  X(ibv_cmd_advise_mr, refuse)                    \
  X(ibv_cmd_alloc_dm, refuse)                     \
  X(ibv_cmd_alloc_mw, refuse)                     \
  X(ibv_cmd_alloc_pd, refuse)                     \
  X(ibv_cmd_attach_mcast, refuse)                 \
  X(ibv_cmd_close_xrcd, refuse)                   \
  X(ibv_cmd_create_ah, refuse)                    \
  X(ibv_cmd_create_counters, refuse)              \
  X(ibv_cmd_create_cq, refuse)                    \
  X(ibv_cmd_create_cq_ex, refuse)                 \
  X(ibv_cmd_create_flow, refuse)                  \
  X(ibv_cmd_create_flow_action_esp, refuse)       \
  X(ibv_cmd_create_qp, refuse)                    \
  X(ibv_cmd_create_qp_ex, refuse)                 \
  X(ibv_cmd_create_qp_ex2, refuse)                \
  X(ibv_cmd_create_rwq_ind_table, refuse)         \
  X(ibv_cmd_create_srq, refuse)                   \
  X(ibv_cmd_create_srq_ex, refuse)                \
  X(ibv_cmd_create_wq, refuse)                    \
  X(ibv_cmd_dealloc_mw, refuse)                   \
  X(ibv_cmd_dealloc_pd, refuse)                   \
  X(ibv_cmd_dereg_mr, refuse)                     \
  X(ibv_cmd_destroy_ah, refuse)                   \
  X(ibv_cmd_destroy_counters, refuse)             \
  X(ibv_cmd_destroy_cq, refuse)                   \
  X(ibv_cmd_destroy_flow, refuse)                 \
  X(ibv_cmd_destroy_flow_action, refuse)          \
  X(ibv_cmd_destroy_qp, refuse)                   \
  X(ibv_cmd_destroy_rwq_ind_table, refuse)        \
  X(ibv_cmd_destroy_srq, refuse)                  \
  X(ibv_cmd_destroy_wq, refuse)                   \
  X(ibv_cmd_detach_mcast, refuse)                 \
  X(ibv_cmd_free_dm, refuse)                      \
  X(ibv_cmd_get_context, refuse)                  \
  X(ibv_cmd_modify_cq, refuse)                    \
  X(ibv_cmd_modify_flow_action_esp, refuse)       \
  X(ibv_cmd_modify_qp, refuse)                    \
  X(ibv_cmd_modify_qp_ex, refuse)                 \
  X(ibv_cmd_modify_srq, refuse)                   \
  X(ibv_cmd_modify_wq, refuse)                    \
  X(ibv_cmd_open_qp, refuse)                      \
  X(ibv_cmd_open_xrcd, refuse)                    \
  X(ibv_cmd_post_recv, refuse)                    \
  X(ibv_cmd_post_send, refuse)                    \
  X(ibv_cmd_post_srq_recv, refuse)                \
  X(ibv_cmd_query_context, refuse)                \
  X(ibv_cmd_query_device_any, refuse)             \
  X(ibv_cmd_query_mr, refuse)                     \
  X(ibv_cmd_query_port, refuse)                   \
  X(ibv_cmd_query_qp, refuse)                     \
  X(ibv_cmd_query_srq, refuse)                    \
  X(ibv_cmd_read_counters, refuse)                \
  X(ibv_cmd_reg_dm_mr, refuse)                    \
  X(ibv_cmd_reg_dmabuf_mr, refuse)                \
  X(ibv_cmd_reg_mr, refuse)                       \
  X(ibv_cmd_req_notify_cq, refuse)                \
  X(ibv_cmd_rereg_mr, refuse)                     \
  X(ibv_cmd_resize_cq, refuse)                    \
  X(ibv_cmd_poll_cq, refuse_count)                \
  X(__ioctl_final_num_attrs, refuse_number)       \
  X(ibv_read_ibdev_sysfs_file, refuse_minus_one)  \
  X(_verbs_init_and_alloc_context, refuse_object) \
  X(verbs_open_device, refuse_object)             \
  X(verbs_init_cq, ignore)                        \
  X(verbs_set_ops, ignore)                        \
  X(verbs_uninit_context, ignore)                 \
  X(verbs_register_driver_34, remember_provider)  \
  X(__verbs_log, ignore)

// Where each symbol leads now: here as long as there is no real library.
#define VERBENA_TARGET(name, otherwise)                                         \
  extern "C" {                                                                  \
  __attribute__((visibility("hidden"), used)) void (*verbena_target_##name)() = \
      reinterpret_cast<void (*)()>(&(otherwise));                               \
  }
VERBENA_PRIVATE_SYMBOLS(VERBENA_TARGET)
#undef VERBENA_TARGET

std::span<const PrivateSymbol> private_symbols() {
#define VERBENA_ROW(name, otherwise) PrivateSymbol{#name, &verbena_target_##name},
  static constexpr std::array table = {VERBENA_PRIVATE_SYMBOLS(VERBENA_ROW)};
#undef VERBENA_ROW
  return table;
}

void register_waiting_providers() {
  const auto register_provider = reinterpret_cast<void (*)(const void*)>(
      std::atomic_ref(verbena_target_verbs_register_driver_34).load(std::memory_order_acquire));
  for (std::size_t i = 0; i < waiting_provider_count; ++i) {
    // Not of a plug-in that has been unloaded; it registers again when it is loaded again.
    Dl_info owner{};
    if (::dladdr(waiting_providers[i], &owner) != 0) {
      register_provider(waiting_providers[i]);
    }
  }
}

}  // namespace verbena::verbs

// Two of the names are reserved ones, which isn't our doing.
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
#define VERBENA_TRAMPOLINE(name, otherwise) \
  VERBENA_EXPORT __attribute__((naked)) void name() { asm("jmp *verbena_target_" #name "(%rip)"); }
VERBENA_PRIVATE_SYMBOLS(VERBENA_TRAMPOLINE)
#undef VERBENA_TRAMPOLINE
#undef VERBENA_PRIVATE_SYMBOLS
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

/// Whether providers forget objects whose device has vanished; from RDMAV_ALLOW_DISASSOC_DESTROY in
/// rdma-core. A pure datum, false by default. The real library has one of its own.
extern "C" {
__attribute__((visibility("default"))) bool verbs_allow_disassociate_destroy = false;
}

void verbena::verbs::allow_disassociate_destroy() { verbs_allow_disassociate_destroy = true; }
