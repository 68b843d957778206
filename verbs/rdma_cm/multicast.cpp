// Multicast groups: on RoCE there is no subnet manager to ask, the group's address is its GID.

#include <algorithm>
#include <cstring>

#include "proto/roce/gid.h"
#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/cm_id.h"
#include "verbs/rdma_cm/library.h"

namespace verbena::rdma_cm {

namespace {

void detach(CmId& id, Multicast& multicast) {
  if (multicast.attached && id.qp != nullptr) {
    const ibv_gid gid = abi_gid(multicast.group);
    ibv_detach_mcast(id.qp, &gid, 0);
  }
  multicast.attached = false;
}

Errno join(CmId& id, const sockaddr& address, void* context) {
  if (!is_known_family(address) || !is_multicast(address)) {
    return EINVAL;
  }
  if (!id.is_datagram() || id.device == nullptr) {
    return EINVAL;
  }
  Multicast& multicast = id.groups.emplace_back();
  multicast.group = gid_of(address);
  copy_address(multicast.address, address);
  multicast.context = context;
  {
    const std::lock_guard guard(library_mutex());
    id.events().push(
        {.owner = &id, .type = RDMA_CM_EVENT_MULTICAST_JOIN, .news = {}, .multicast = &multicast});
  }
  return id.complete();
}

Errno leave(CmId& id, const sockaddr& address) {
  if (!is_known_family(address)) {
    return EINVAL;
  }
  const auto found = std::ranges::find(id.groups, gid_of(address), &Multicast::group);
  if (found == id.groups.end()) {
    return EADDRNOTAVAIL;
  }
  detach(id, *found);
  if (id.synchronous && id.event != nullptr) {
    rdma_ack_cm_event(id.event);
    id.event = nullptr;
  }
  std::unique_lock guard(library_mutex());
  // The event of the join may not have been fetched yet.
  std::erase_if(id.events().events,
                [&](const QueuedEvent& event) { return event.multicast == &*found; });
  id.acknowledged.wait(guard, [&] { return found->events == 0; });
  guard.unlock();
  id.groups.erase(found);
  return 0;
}

}  // namespace

Errno attach(CmId& id, Multicast& multicast) {
  if (id.qp == nullptr) {
    return 0;
  }
  const ibv_gid gid = abi_gid(multicast.group);
  const Errno error = ibv_attach_mcast(id.qp, &gid, 0);
  multicast.attached = error == 0;
  return error;
}

void leave_all_groups(CmId& id) {
  for (Multicast& multicast : id.groups) {
    detach(id, multicast);
  }
}

}  // namespace verbena::rdma_cm

using namespace verbena::rdma_cm;

VERBENA_EXPORT int rdma_join_multicast(rdma_cm_id* id, sockaddr* address, void* context) {
  return guarded([&] { return join(CmId::of(id), *address, context); });
}

VERBENA_EXPORT int rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attr,
                                          void* context) {
  const bool complete = (attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) != 0 &&
                        (attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) != 0;
  if (!complete || attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED ||
      attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) {
    return status(EINVAL);
  }
  return guarded([&] { return join(CmId::of(id), *attr->addr, context); });
}

VERBENA_EXPORT int rdma_leave_multicast(rdma_cm_id* id, sockaddr* address) {
  return guarded([&] { return leave(CmId::of(id), *address); });
}
