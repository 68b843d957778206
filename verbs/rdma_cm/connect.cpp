// Connections: listening, connecting, accepting, and their ends.

#include <algorithm>
#include <cstring>

#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/cm_id.h"
#include "verbs/rdma_cm/library.h"

namespace verbena::rdma_cm {

namespace {

/// Linux's default limit of waiting connection requests.
constexpr std::uint32_t backlog_max = 1024;

Errno connect(CmId& id, const rdma_conn_param* param) {
  if (id.state != IdState::route_resolved) {
    return EINVAL;
  }
  if (id.manager().is_dead()) {
    return EIO;
  }
  const Errno error = id.manager().connect(id, param);
  return error != 0 ? error : id.complete();
}

Errno accept(CmId& id, const rdma_conn_param* param) {
  if (id.state != IdState::requested) {
    return EINVAL;
  }
  id.state = IdState::connecting;
  const Errno error = id.manager().accept(id, param);
  // Datagrams need no connection: there is nothing to wait for.
  return error != 0 || id.is_datagram() ? error : id.complete();
}

Errno reject(CmId& id, Refusal reason, const void* data, std::uint8_t length) {
  if (id.device == nullptr) {
    return EINVAL;
  }
  const ByteView bytes(static_cast<const std::byte*>(data), data != nullptr ? length : 0U);
  return id.manager().refuse(id, reason, bytes);
}

void stop_listening(CmId& id) {
  for (Device& device : devices()) {
    device.manager->unlisten(id);
  }
}

/// Everywhere, or on the identifier's device.
Errno listen_on_devices(CmId& id) {
  const bool anywhere = is_any(id.source());
  for (Device& device : devices()) {
    if ((anywhere && device.manager->serves(id.ps)) || &device == id.device) {
      if (const Errno error = device.manager->listen(id)) {
        return error;
      }
    }
  }
  return 0;
}

Errno listen(CmId& id, int backlog) {
  if (id.state == IdState::idle) {
    sockaddr_storage any{};
    any.ss_family = AF_INET;
    if (const Errno error = bind_addr(id, reinterpret_cast<const sockaddr&>(any))) {
      return error;
    }
  }
  if (id.state != IdState::bound) {
    return EINVAL;
  }
  id.backlog =
      backlog > 0 ? std::min(static_cast<std::uint32_t>(backlog), backlog_max) : backlog_max;
  id.state = IdState::listening;
  const Errno error = listen_on_devices(id);
  if (error != 0) {
    stop_listening(id);
    id.state = IdState::bound;
  }
  return error;
}

Errno disconnect(CmId& id) {
  if (id.device == nullptr) {
    return EINVAL;
  }
  if (const Errno error = id.manager().disconnect(id)) {
    return error == ENOTCONN ? 0 : error;  // It is over already, which is what the program wants.
  }
  // Who agrees to the peer's wish has heard of it; who wishes hears of the end.
  return id.state == IdState::disconnected ? 0 : id.complete();
}

}  // namespace

ByteView private_data_of(const CmId& id, const rdma_conn_param* param) {
  if (param != nullptr && param->private_data != nullptr && param->private_data_len > 0) {
    return {static_cast<const std::byte*>(param->private_data), param->private_data_len};
  }
  return id.connect_data;
}

Qpn own_qpn(const CmId& id, const rdma_conn_param* param) {
  return Qpn{id.qp != nullptr ? id.qp->qp_num : (param != nullptr ? param->qp_num : 0)};
}

namespace {

constexpr std::uint8_t as_many_as_possible = RDMA_MAX_RESP_RES;
static_assert(as_many_as_possible == RDMA_MAX_INIT_DEPTH);

}  // namespace

std::uint8_t responder_resources_of(const rdma_conn_param* param) {
  return param != nullptr ? param->responder_resources : as_many_as_possible;
}

std::uint8_t initiator_depth_of(const rdma_conn_param* param) {
  return param != nullptr ? param->initiator_depth : as_many_as_possible;
}

Errno migrate(CmId& id, rdma_event_channel* channel) {
  OwnedChannel own;
  if (channel == nullptr) {
    own = open_channel();
    if (!own) {
      return EMFILE;
    }
  }
  OwnedChannel old;
  {
    const std::lock_guard guard(library_mutex());
    EventChannel& from = id.events();
    EventChannel& to = own ? *own : EventChannel::of(channel);
    id.channel = &to;
    for (QueuedEvent& event : from.take_events_of(id)) {
      to.push(std::move(event));
    }
    old.reset(id.synchronous ? &from : nullptr);
    id.synchronous = own != nullptr;
    static_cast<void>(own.release());
  }
  return 0;
}

}  // namespace verbena::rdma_cm

using namespace verbena;
using namespace verbena::rdma_cm;

VERBENA_EXPORT int rdma_connect(rdma_cm_id* id, rdma_conn_param* param) {
  return guarded([&] { return verbena::rdma_cm::connect(CmId::of(id), param); });
}

VERBENA_EXPORT int rdma_listen(rdma_cm_id* id, int backlog) {
  return guarded([&] { return verbena::rdma_cm::listen(CmId::of(id), backlog); });
}

VERBENA_EXPORT int rdma_accept(rdma_cm_id* id, rdma_conn_param* param) {
  return guarded([&] { return verbena::rdma_cm::accept(CmId::of(id), param); });
}

VERBENA_EXPORT int rdma_reject(rdma_cm_id* id, const void* data, std::uint8_t length) {
  return guarded([&] { return reject(CmId::of(id), Refusal::consumer, data, length); });
}

VERBENA_EXPORT int rdma_reject_ece(rdma_cm_id* id, const void* data, std::uint8_t length) {
  return guarded([&] { return reject(CmId::of(id), Refusal::vendor_option, data, length); });
}

VERBENA_EXPORT int rdma_disconnect(rdma_cm_id* id) {
  return guarded([&] { return disconnect(CmId::of(id)); });
}

VERBENA_EXPORT int rdma_establish(rdma_cm_id* base) {
  return guarded([&]() -> Errno {
    CmId& id = CmId::of(base);
    if (id.qp != nullptr || id.device == nullptr) {
      return EINVAL;
    }
    if (const Errno error = id.manager().establish(id)) {
      return error;
    }
    id.state = IdState::connected;
    return 0;
  });
}

VERBENA_EXPORT int rdma_notify(rdma_cm_id* base, ibv_event_type event) {
  return guarded([&]() -> Errno {
    CmId& id = CmId::of(base);
    if (id.device == nullptr) {
      return EINVAL;
    }
    if (event == IBV_EVENT_COMM_EST) {
      id.manager().note_traffic(id);
      return 0;
    }
    return event == IBV_EVENT_PATH_MIG ? 0 : EINVAL;
  });
}

VERBENA_EXPORT int rdma_migrate_id(rdma_cm_id* base, rdma_event_channel* channel) {
  return guarded([&]() -> Errno {
    CmId& id = CmId::of(base);
    if (id.synchronous && channel == nullptr) {
      return EINVAL;
    }
    if (id.event != nullptr) {
      rdma_ack_cm_event(id.event);
      id.event = nullptr;
    }
    return migrate(id, channel);
  });
}

// Enhanced connection establishment. Our device has no extensions, but which a program negotiates
// for a queue pair that it made itself is between it and its peer, as on Linux: the connection
// manager carries it.

VERBENA_EXPORT int rdma_set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (id == nullptr || id->qp != nullptr || ece == nullptr || ece->vendor_id == 0 ||
      ece->comp_mask != 0) {
    return status(EINVAL);
  }
  CmId::of(id).local_ece = {.vendor_id = ece->vendor_id, .options = ece->options};
  return 0;
}

VERBENA_EXPORT int rdma_get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (id == nullptr || id->qp != nullptr || ece == nullptr) {
    return status(EINVAL);
  }
  const ib::cm::Ece& remote = CmId::of(id).remote_ece;
  *ece = {.vendor_id = remote.vendor_id, .options = remote.options, .comp_mask = 0};
  return 0;
}
