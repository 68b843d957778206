// The queue pair of an identifier: creation, and the transitions that a connection brings.

#include <fcntl.h>

#include <cstring>
#include <mutex>
#include <utility>

#include "verbs/rdma_cm/cm_id.h"
#include "verbs/rdma_cm/library.h"

namespace verbena::rdma_cm {

namespace {

void destroy_cqs(CmId& id) {
  if (!id.owns_cqs) {
    return;
  }
  for (ibv_cq** cq : {&id.send_cq, &id.recv_cq}) {
    if (*cq != nullptr) {
      ibv_destroy_cq(*cq);
      *cq = nullptr;
    }
  }
  for (ibv_comp_channel** channel : {&id.send_cq_channel, &id.recv_cq_channel}) {
    if (*channel != nullptr) {
      ibv_destroy_comp_channel(*channel);
      *channel = nullptr;
    }
  }
  id.owns_cqs = false;
}

/// A completion queue of the identifier's own, with a channel.
Errno make_cq(CmId& id, std::uint32_t entries, ibv_comp_channel*& channel, ibv_cq*& cq) {
  channel = ibv_create_comp_channel(id.verbs);
  if (channel == nullptr) {
    return errno;
  }
  cq = ibv_create_cq(id.verbs, static_cast<int>(entries), &id, channel, 0);
  return cq == nullptr ? errno : 0;
}

/// The domain of those that bring none: one for each device, which isn't shared by a file.
Errno default_xrcd(const CmId& id, ibv_xrcd*& xrcd) {
  Device* const device = device_of(id.verbs);
  if (device == nullptr) {
    return EINVAL;
  }
  const std::lock_guard guard(library_mutex());
  if (device->xrcd == nullptr) {
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = -1;
    attr.oflags = O_CREAT;
    device->xrcd = ibv_open_xrcd(id.verbs, &attr);
  }
  xrcd = device->xrcd;
  return xrcd == nullptr ? errno : 0;
}

/// What only an XRC target needs; completions of what it receives are its SRQ's.
Errno complete_xrc_target(const CmId& id, ibv_qp_init_attr_ex& attr) {
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0 && attr.xrcd != nullptr) {
    return 0;
  }
  attr.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
  return default_xrcd(id, attr.xrcd);
}

/// What only an XRC SRQ needs: a domain, and a completion queue, which is the identifier's.
Errno complete_xrc_srq(CmId& id, ibv_srq_init_attr_ex& attr) {
  if ((attr.comp_mask & IBV_SRQ_INIT_ATTR_XRCD) == 0 || attr.xrcd == nullptr) {
    attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
    if (const Errno error = default_xrcd(id, attr.xrcd)) {
      return error;
    }
  }
  if ((attr.comp_mask & IBV_SRQ_INIT_ATTR_CQ) == 0 || attr.cq == nullptr) {
    attr.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
    id.owns_cqs = true;
    if (const Errno error = make_cq(id, attr.attr.max_wr, id.recv_cq_channel, id.recv_cq)) {
      return error;
    }
    attr.cq = id.recv_cq;
    id.srq_completes_here = true;
  }
  return 0;
}

Errno create_srq(CmId& id, ibv_srq_init_attr_ex& attr) {
  if (id.verbs == nullptr || (attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0) {
    return EINVAL;
  }
  if ((attr.comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr.pd == nullptr) {
    attr.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    attr.pd = id.pd;
  }
  if (attr.pd == nullptr || attr.pd->context != id.verbs) {
    return EINVAL;
  }
  Errno error = attr.srq_type == IBV_SRQT_XRC ? complete_xrc_srq(id, attr) : 0;
  if (error == 0) {
    id.srq = ibv_create_srq_ex(id.verbs, &attr);
    error = id.srq == nullptr ? errno : 0;
  }
  if (error != 0 && std::exchange(id.srq_completes_here, false)) {
    destroy_cqs(id);
  }
  id.pd = error == 0 ? attr.pd : id.pd;
  return error;
}

Errno make_what_is_missing(CmId& id, ibv_qp_init_attr_ex& attr) {
  // The identifier names what the queue pair uses; those that it made itself it also destroys.
  if (attr.qp_type == IBV_QPT_XRC_RECV) {
    return complete_xrc_target(id, attr);
  }
  const bool own_receive = attr.recv_cq == nullptr && attr.qp_type != IBV_QPT_XRC_SEND;
  const bool own_send = attr.send_cq == nullptr;
  if (own_receive) {
    id.owns_cqs = true;
    const std::uint32_t entries = attr.cap.max_recv_wr > 0 ? attr.cap.max_recv_wr : 1;
    if (const Errno error = make_cq(id, entries, id.recv_cq_channel, id.recv_cq)) {
      return error;
    }
    attr.recv_cq = id.recv_cq;
  }
  if (own_send) {
    id.owns_cqs = true;
    const std::uint32_t entries = attr.cap.max_send_wr > 0 ? attr.cap.max_send_wr : 1;
    if (const Errno error = make_cq(id, entries, id.send_cq_channel, id.send_cq)) {
      return error;
    }
    attr.send_cq = id.send_cq;
  }
  return 0;
}

}  // namespace

Errno move_qp(CmId& id, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  int mask = 0;
  if (const Errno error = id.manager().init_qp_attr(id, attr, mask)) {
    return error;
  }
  return ibv_modify_qp(id.qp, &attr, mask);
}

void make_qp_fail(CmId& id) {
  if (id.qp != nullptr) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    ibv_modify_qp(id.qp, &attr, IBV_QP_STATE);
  }
}

Errno create_qp(CmId& id, ibv_qp_init_attr_ex& attr) {
  if (id.qp != nullptr || id.verbs == nullptr) {
    return EINVAL;
  }
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr.pd == nullptr) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
    attr.pd = id.pd;
  }
  if (attr.pd == nullptr || attr.pd->context != id.verbs || attr.qp_type != id.qp_type) {
    return EINVAL;
  }
  attr.srq = attr.srq != nullptr ? attr.srq : id.srq;
  Errno error = make_what_is_missing(id, attr);
  if (error == 0) {
    id.qp = ibv_create_qp_ex(id.verbs, &attr);
    error = id.qp == nullptr ? errno : 0;
  }
  if (error == 0) {
    error = move_qp(id, IBV_QPS_INIT);
  }
  if (error == 0 && id.is_datagram()) {
    error = move_qp(id, IBV_QPS_RTR);
    error = error != 0 ? error : move_qp(id, IBV_QPS_RTS);
  }
  if (error != 0) {
    if (id.qp != nullptr) {
      ibv_destroy_qp(id.qp);
      id.qp = nullptr;
    }
    destroy_cqs(id);
    return error;
  }
  id.pd = attr.pd;
  return 0;
}

}  // namespace verbena::rdma_cm

using namespace verbena::rdma_cm;

VERBENA_EXPORT int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attr, int* mask) {
  return guarded([&]() -> Errno {
    CmId& on = CmId::of(id);
    return on.device == nullptr ? EINVAL : on.manager().init_qp_attr(on, *attr, *mask);
  });
}

VERBENA_EXPORT int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attr) {
  return guarded([&] { return create_qp(CmId::of(id), *attr); });
}

VERBENA_EXPORT int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attr) {
  return guarded([&]() -> Errno {
    // The extended struct begins with the members of the plain one.
    ibv_qp_init_attr_ex extended{};
    std::memcpy(&extended, attr, sizeof *attr);
    extended.comp_mask = IBV_QP_INIT_ATTR_PD;
    extended.pd = pd;
    const Errno error = create_qp(CmId::of(id), extended);
    std::memcpy(attr, &extended, sizeof *attr);
    return error;
  });
}

VERBENA_EXPORT void rdma_destroy_qp(rdma_cm_id* base) {
  CmId& id = CmId::of(base);
  leave_all_groups(id);
  ibv_destroy_qp(id.qp);
  id.qp = nullptr;
  if (!id.srq_completes_here) {
    destroy_cqs(id);
  }
}

VERBENA_EXPORT int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attr) {
  return guarded([&]() -> Errno {
    // The extended struct begins with the members of the plain one.
    ibv_srq_init_attr_ex extended{};
    std::memcpy(&extended, attr, sizeof *attr);
    extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    extended.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
    extended.pd = pd;
    const Errno error = create_srq(CmId::of(id), extended);
    std::memcpy(attr, &extended, sizeof *attr);
    return error;
  });
}

VERBENA_EXPORT int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attr) {
  return guarded([&] { return create_srq(CmId::of(id), *attr); });
}

VERBENA_EXPORT void rdma_destroy_srq(rdma_cm_id* base) {
  CmId& id = CmId::of(base);
  ibv_destroy_srq(id.srq);
  id.srq = nullptr;
  if (std::exchange(id.srq_completes_here, false)) {
    destroy_cqs(id);
  }
}
