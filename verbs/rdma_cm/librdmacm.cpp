// librdmacm.so.1 without a connection manager: the whole set of symbols, so that programs that link
// to it load and can run without it (perftest exchanges addresses over TCP unless told otherwise).
// Every function refuses with EOPNOTSUPP in the way that it reports errors; none pretends.
//
// The functions are defined without their arguments, which on x86-64 a callee may ignore, so that
// one line each is enough. That is also why rdma_cma.h is not included.

#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>

#include "verbs/abi.h"

// Functions that return 0, a count or a length; -1 and errno on failure.
#define VERBENA_RDMACM_NUMBERS(X) \
  X(rdma_accept)                  \
  X(rdma_ack_cm_event)            \
  X(rdma_bind_addr)               \
  X(rdma_connect)                 \
  X(rdma_create_ep)               \
  X(rdma_create_id)               \
  X(rdma_create_qp)               \
  X(rdma_create_qp_ex)            \
  X(rdma_create_srq)              \
  X(rdma_create_srq_ex)           \
  X(rdma_destroy_id)              \
  X(rdma_disconnect)              \
  X(rdma_establish)               \
  X(rdma_get_cm_event)            \
  X(rdma_get_remote_ece)          \
  X(rdma_get_request)             \
  X(rdma_getaddrinfo)             \
  X(rdma_init_qp_attr)            \
  X(rdma_join_multicast)          \
  X(rdma_join_multicast_ex)       \
  X(rdma_leave_multicast)         \
  X(rdma_listen)                  \
  X(rdma_migrate_id)              \
  X(rdma_notify)                  \
  X(rdma_reject)                  \
  X(rdma_reject_ece)              \
  X(rdma_resolve_addr)            \
  X(rdma_resolve_route)           \
  X(rdma_set_local_ece)           \
  X(rdma_set_option)              \
  X(raccept)                      \
  X(rbind)                        \
  X(rclose)                       \
  X(rconnect)                     \
  X(rfcntl)                       \
  X(rgetpeername)                 \
  X(rgetsockname)                 \
  X(rgetsockopt)                  \
  X(riomap)                       \
  X(riounmap)                     \
  X(riowrite)                     \
  X(rlisten)                      \
  X(rpoll)                        \
  X(rread)                        \
  X(rreadv)                       \
  X(rrecv)                        \
  X(rrecvfrom)                    \
  X(rrecvmsg)                     \
  X(rselect)                      \
  X(rsend)                        \
  X(rsendmsg)                     \
  X(rsendto)                      \
  X(rsetsockopt)                  \
  X(rshutdown)                    \
  X(rsocket)                      \
  X(rwrite)                       \
  X(rwritev)

#define VERBENA_REFUSE(name)   \
  VERBENA_EXPORT long name() { \
    errno = EOPNOTSUPP;        \
    return -1;                 \
  }
VERBENA_RDMACM_NUMBERS(VERBENA_REFUSE)
#undef VERBENA_REFUSE
#undef VERBENA_RDMACM_NUMBERS

VERBENA_EXPORT void* rdma_create_event_channel() {
  errno = EOPNOTSUPP;
  return nullptr;
}

// Functions on what can't exist here.

VERBENA_EXPORT void rdma_destroy_event_channel() {}
VERBENA_EXPORT void rdma_destroy_ep() {}
VERBENA_EXPORT void rdma_destroy_qp() {}
VERBENA_EXPORT void rdma_destroy_srq() {}
VERBENA_EXPORT void rdma_freeaddrinfo() {}

/// Ports in network byte order; 0 is "none".
VERBENA_EXPORT __be16 rdma_get_src_port() { return 0; }
VERBENA_EXPORT __be16 rdma_get_dst_port() { return 0; }

// What works.

namespace {

constexpr std::array event_names = {
    "RDMA_CM_EVENT_ADDR_RESOLVED",   "RDMA_CM_EVENT_ADDR_ERROR",
    "RDMA_CM_EVENT_ROUTE_RESOLVED",  "RDMA_CM_EVENT_ROUTE_ERROR",
    "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
    "RDMA_CM_EVENT_CONNECT_ERROR",   "RDMA_CM_EVENT_UNREACHABLE",
    "RDMA_CM_EVENT_REJECTED",        "RDMA_CM_EVENT_ESTABLISHED",
    "RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
    "RDMA_CM_EVENT_MULTICAST_JOIN",  "RDMA_CM_EVENT_MULTICAST_ERROR",
    "RDMA_CM_EVENT_ADDR_CHANGE",     "RDMA_CM_EVENT_TIMEWAIT_EXIT",
};

/// The contexts that rdma_get_devices() lends: opened at the first call and never closed, as
/// programs may use them after rdma_free_devices().
class LentContexts {
 public:
  static constexpr std::size_t contexts_max = 64;

  /// A list that ends with a null pointer, or null and errno.
  ibv_context** list(int& count) {
    const std::lock_guard guard(mutex_);
    if (count_ == 0) {
      open();
    }
    auto* list = new (std::nothrow) ibv_context* [count_ + 1] {};
    if (list == nullptr) {
      errno = ENOMEM;
      return nullptr;
    }
    for (std::size_t i = 0; i < count_; ++i) {
      list[i] = contexts_[i];
    }
    count = static_cast<int>(count_);
    return list;
  }

 private:
  void open() {
    ibv_device** devices = ibv_get_device_list(nullptr);
    for (ibv_device** device = devices;
         device != nullptr && *device != nullptr && count_ < contexts_max; ++device) {
      if (ibv_context* context = ibv_open_device(*device)) {
        contexts_[count_++] = context;
      }
    }
    if (devices != nullptr) {
      ibv_free_device_list(devices);
    }
  }

  std::mutex mutex_;
  std::array<ibv_context*, contexts_max> contexts_{};
  std::size_t count_ = 0;
};

LentContexts lent_contexts;

}  // namespace

VERBENA_EXPORT const char* rdma_event_str(unsigned event) {
  return event < event_names.size() ? event_names[event] : "UNKNOWN EVENT";
}

VERBENA_EXPORT ibv_context** rdma_get_devices(int* num_devices) {
  int count = 0;
  ibv_context** list = lent_contexts.list(count);
  if (num_devices != nullptr) {
    *num_devices = count;
  }
  return list;
}

VERBENA_EXPORT void rdma_free_devices(ibv_context** list) { delete[] list; }
