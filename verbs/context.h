// An open device.
#pragma once

#include <boost/intrusive/list.hpp>
#include <memory>
#include <mutex>

#include "ports/engine.h"
#include "verbs/abi.h"
#include "verbs/async.h"
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
  ObjectList pds;
  ObjectList mrs;
  ObjectList cqs;
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
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) noexcept;

}  // namespace verbena::verbs
