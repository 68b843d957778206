// Endpoints: names resolved, identifier and queue pair made in one call, and synchronous listeners.

#include <netdb.h>

#include <cstring>
#include <memory>

#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/cm_id.h"

namespace verbena::rdma_cm {

namespace {

constexpr int resolve_timeout_ms = 2000;

struct AddrinfoDeleter {
  void operator()(addrinfo* info) const { freeaddrinfo(info); }
};

/// Memory that rdma_freeaddrinfo() gives back.
sockaddr* duplicate(const sockaddr& address, socklen_t length) {
  auto* copy = new std::byte[length];
  std::memcpy(copy, &address, length);
  return reinterpret_cast<sockaddr*>(copy);
}

/// Hints of ours as hints of libc's.
addrinfo translate(const rdma_addrinfo* hints) {
  addrinfo translated{};
  if (hints == nullptr) {
    translated.ai_socktype = SOCK_STREAM;
    return translated;
  }
  if ((hints->ai_flags & RAI_PASSIVE) != 0) {
    translated.ai_flags |= AI_PASSIVE;
  }
  if ((hints->ai_flags & RAI_NUMERICHOST) != 0) {
    translated.ai_flags |= AI_NUMERICHOST;
  }
  translated.ai_family = hints->ai_family;
  const bool datagram = hints->ai_port_space == RDMA_PS_UDP || hints->ai_qp_type == IBV_QPT_UD;
  translated.ai_socktype = datagram ? SOCK_DGRAM : SOCK_STREAM;
  return translated;
}

void fill_kind(rdma_addrinfo& info, const rdma_addrinfo* hints, const addrinfo& found) {
  info.ai_flags = hints != nullptr ? hints->ai_flags : 0;
  info.ai_family = found.ai_family;
  info.ai_port_space = hints != nullptr ? hints->ai_port_space : 0;
  info.ai_qp_type = hints != nullptr ? hints->ai_qp_type : 0;
  if (info.ai_port_space == 0) {
    const bool datagram = info.ai_qp_type == IBV_QPT_UD || found.ai_socktype == SOCK_DGRAM;
    info.ai_port_space = datagram ? RDMA_PS_UDP : RDMA_PS_TCP;
  }
  if (info.ai_qp_type == 0) {
    const bool datagram = info.ai_port_space == RDMA_PS_UDP || info.ai_port_space == RDMA_PS_IPOIB;
    info.ai_qp_type = datagram ? IBV_QPT_UD : IBV_QPT_RC;
  }
}

/// The kind and the destination are those of the hints: nothing needs to be looked up.
void repeat_hints(const rdma_addrinfo& hints, rdma_addrinfo& info) {
  info.ai_flags = hints.ai_flags;
  info.ai_family = hints.ai_family;
  info.ai_port_space = hints.ai_port_space;
  info.ai_qp_type = hints.ai_qp_type;
  if (hints.ai_dst_addr != nullptr) {
    info.ai_dst_addr = duplicate(*hints.ai_dst_addr, hints.ai_dst_len);
    info.ai_dst_len = hints.ai_dst_len;
  }
}

/// 0, or what getaddrinfo() returns.
int look_up(const char* node, const char* service, const rdma_addrinfo* hints,
            rdma_addrinfo& info) {
  const addrinfo translated = translate(hints);
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(node, service, &translated, &list)) {
    return error;
  }
  const std::unique_ptr<addrinfo, AddrinfoDeleter> found(list);
  fill_kind(info, hints, *found);
  sockaddr* address = duplicate(*found->ai_addr, found->ai_addrlen);
  char* name = found->ai_canonname != nullptr ? strdup(found->ai_canonname) : nullptr;
  if ((info.ai_flags & RAI_PASSIVE) != 0) {
    info.ai_src_addr = address;
    info.ai_src_len = found->ai_addrlen;
    info.ai_src_canonname = name;
  } else {
    info.ai_dst_addr = address;
    info.ai_dst_len = found->ai_addrlen;
    info.ai_dst_canonname = name;
  }
  return 0;
}

/// 0, or what getaddrinfo() returns.
int get_address_info(const char* node, const char* service, const rdma_addrinfo* hints,
                     rdma_addrinfo& info) {
  if (node != nullptr || service != nullptr) {
    if (const int error = look_up(node, service, hints, info)) {
      return error;
    }
  } else {
    repeat_hints(*hints, info);
  }
  if (info.ai_src_addr == nullptr && hints != nullptr && hints->ai_src_addr != nullptr) {
    info.ai_src_addr = duplicate(*hints->ai_src_addr, hints->ai_src_len);
    info.ai_src_len = hints->ai_src_len;
  }
  return 0;
}

Errno prepare_active(CmId& id, const rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (rdma_resolve_addr(&id, info.ai_src_addr, info.ai_dst_addr, resolve_timeout_ms) != 0) {
    return errno;
  }
  const int routed = info.ai_route_len > 0
                         ? rdma_set_option(&id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, info.ai_route,
                                           static_cast<std::size_t>(info.ai_route_len))
                         : rdma_resolve_route(&id, resolve_timeout_ms);
  if (routed != 0) {
    return errno;
  }
  if (attr != nullptr) {
    attr->qp_type = id.qp_type;
    if (rdma_create_qp(&id, pd, attr) != 0) {
      return errno;
    }
  }
  if (info.ai_connect_len > 0) {
    const auto* data = static_cast<const std::byte*>(info.ai_connect);
    id.connect_data.assign(data, data + info.ai_connect_len);
  }
  return 0;
}

Errno prepare_passive(CmId& id, const rdma_addrinfo& info, ibv_pd* pd,
                      const ibv_qp_init_attr* attr) {
  if (const Errno error = bind_addr(id, *info.ai_src_addr)) {
    return error;
  }
  if (attr != nullptr) {
    id.endpoint_attr = *attr;
    id.endpoint_attr->qp_type = id.qp_type;
    id.endpoint_pd = pd;
  }
  return 0;
}

Errno create_endpoint(CmId*& created, const rdma_addrinfo& info, ibv_pd* pd,
                      ibv_qp_init_attr* attr) {
  CmId* id = nullptr;
  const Errno error =
      create_id(id, nullptr, nullptr, static_cast<rdma_port_space>(info.ai_port_space),
                static_cast<ibv_qp_type>(info.ai_qp_type));
  if (error != 0) {
    return error;
  }
  const bool passive = (info.ai_flags & RAI_PASSIVE) != 0;
  const Errno prepared =
      passive ? prepare_passive(*id, info, pd, attr) : prepare_active(*id, info, pd, attr);
  if (prepared != 0) {
    if (id->qp != nullptr) {
      rdma_destroy_qp(id);
    }
    destroy_id(*id);
    return prepared;
  }
  created = id;
  return 0;
}

Errno get_request(CmId& listener, rdma_cm_id*& request) {
  if (!listener.synchronous) {
    return EINVAL;
  }
  if (listener.event != nullptr) {
    rdma_ack_cm_event(listener.event);
    listener.event = nullptr;
  }
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(listener.channel, &event) != 0) {
    return errno;
  }
  Errno error = event->status < 0 ? -event->status : event->status;
  if (error == 0 && event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    error = EINVAL;
  }
  if (error == 0 && listener.endpoint_attr) {
    ibv_qp_init_attr attr = *listener.endpoint_attr;
    if (rdma_create_qp(event->id, listener.endpoint_pd, &attr) != 0) {
      error = errno;
    }
  }
  if (error != 0) {
    rdma_ack_cm_event(event);
    return error;
  }
  // The event, with the request's private data, stays with the new identifier.
  request = event->id;
  request->event = event;
  return 0;
}

}  // namespace

}  // namespace verbena::rdma_cm

using namespace verbena::rdma_cm;

VERBENA_EXPORT int rdma_getaddrinfo(const char* node, const char* service,
                                    const rdma_addrinfo* hints, rdma_addrinfo** result) {
  if (node == nullptr && service == nullptr && hints == nullptr) {
    return status(EINVAL);
  }
  try {
    auto info = std::make_unique<rdma_addrinfo>();
    const int error = get_address_info(node, service, hints, *info);
    if (error == 0) {
      *result = info.release();
    }
    return error;
  } catch (const std::exception&) {
    return status(ENOMEM);
  }
}

VERBENA_EXPORT void rdma_freeaddrinfo(rdma_addrinfo* info) {
  while (info != nullptr) {
    const std::unique_ptr<rdma_addrinfo> each(info);
    info = each->ai_next;
    delete[] reinterpret_cast<std::byte*>(each->ai_src_addr);
    delete[] reinterpret_cast<std::byte*>(each->ai_dst_addr);
    free(each->ai_src_canonname);
    free(each->ai_dst_canonname);
  }
}

VERBENA_EXPORT int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd,
                                  ibv_qp_init_attr* attr) {
  return guarded([&]() -> Errno {
    CmId* created = nullptr;
    const Errno error = create_endpoint(created, *info, pd, attr);
    if (error == 0) {
      *id = created;
    }
    return error;
  });
}

VERBENA_EXPORT void rdma_destroy_ep(rdma_cm_id* id) {
  if (id->qp != nullptr) {
    rdma_destroy_qp(id);
  }
  if (id->srq != nullptr) {
    rdma_destroy_srq(id);
  }
  rdma_destroy_id(id);
}

VERBENA_EXPORT int rdma_get_request(rdma_cm_id* listener, rdma_cm_id** id) {
  return guarded([&] { return get_request(CmId::of(listener), *id); });
}
