// An open device.
#pragma once

#include <boost/intrusive/list.hpp>
#include <memory>
#include <mutex>

#include "ports/engine.h"
#include "verbs/abi.h"
#include "verbs/async.h"
#include "verbs/context_arena.h"
#include "verbs/device.h"
#include "verbs/shared_engine.h"

namespace verbena::verbs {

/// The base of what a context owns: a place in one of its lists.
struct ObjectLink
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>> {
};
using ObjectList = boost::intrusive::list<ObjectLink>;

struct Context : verbs_context {
  /// `command_fd` is closed by the destructor.
  Context(Device& opened_device, std::shared_ptr<SharedEngine> engine, int command_fd);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Where the address tells that it is ours.
  static void* operator new(std::size_t bytes) { return ContextArena::allocate(bytes); }
  static void operator delete(void* memory) { ContextArena::free(memory); }

  /// The program's ibv_context is the last member of a verbs_context.
  [[nodiscard]] static Context& of(ibv_context* context) {
    return static_cast<Context&>(*verbs_get_ctx(context));
  }

  [[nodiscard]] ports::Engine& engine() { return shared_engine->engine(); }
  /// In the child of a fork(): commands answer EIO, destroying only frees memory. Nothing else may
  /// be touched there, locks of ours least of all.
  [[nodiscard]] bool is_dead() { return engine().is_dead(); }

  void track(ObjectList& list, ObjectLink& object) {
    const std::lock_guard guard(objects_mutex);
    list.push_back(object);
  }
  void untrack(ObjectList& list, ObjectLink& object) {
    const std::lock_guard guard(objects_mutex);
    list.erase(list.iterator_to(object));
  }
  /// Takes from the NIC what the program has not destroyed.
  void release_objects();

  Device& opened;
  std::shared_ptr<SharedEngine> shared_engine;
  AsyncQueue async;

  std::mutex objects_mutex;
  ObjectList tds;
  ObjectList pds;
  ObjectList mrs;
  ObjectList mws;
  ObjectList dms;
  ObjectList cqs;
  ObjectList srqs;
  ObjectList xrcds;
  ObjectList qps;
  ObjectList ahs;
};

// What the inline functions of <infiniband/verbs.h> call through pointers in the context.
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr,
               std::size_t attr_bytes) noexcept;
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t attr_bytes) noexcept;
int poll_cq(ibv_cq* cq, int entries_max, ibv_wc* wc) noexcept;
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) noexcept;
int query_rt_values(ibv_context* context, ibv_values_ex* values) noexcept;
int req_notify_cq(ibv_cq* cq, int solicited_only) noexcept;
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept;
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept;
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) noexcept;
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) noexcept;
int dealloc_td(ibv_td* td) noexcept;
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept;
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr) noexcept;
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr) noexcept;
int close_xrcd(ibv_xrcd* xrcd) noexcept;
int get_srq_num(ibv_srq* srq, std::uint32_t* number) noexcept;
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr) noexcept;
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) noexcept;
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) noexcept;
int dealloc_mw(ibv_mw* mw) noexcept;
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* sges,
              std::uint32_t count) noexcept;
ibv_mr* alloc_null_mr(ibv_pd* pd) noexcept;
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) noexcept;
int free_dm(ibv_dm* dm) noexcept;
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length,
                  unsigned access) noexcept;
int modify_qp_rate_limit(ibv_qp* qp, ibv_qp_rate_limit_attr* attr) noexcept;
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) noexcept;

}  // namespace verbena::verbs
