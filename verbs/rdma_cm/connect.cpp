// Connections: listening, connecting, accepting, and their ends.

#include <algorithm>
#include <cstring>

#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/cm_id.h"
#include "verbs/rdma_cm/library.h"

namespace verbena::rdma_cm {

namespace {

// As Linux (drivers/infiniband/core/cma.c).
constexpr std::uint8_t response_timeout = 20;
constexpr std::uint8_t cm_retries = 15;
constexpr std::uint16_t lid_permissive = 0xFFFF;
constexpr std::uint8_t retry_count_max = 7;
/// What a program that brings no parameters gets.
constexpr std::uint8_t retry_count_default = 7;
constexpr std::uint8_t rnr_retry_count_default = 7;
/// Linux's default limit of waiting connection requests.
constexpr std::uint32_t backlog_max = 1024;

ByteView private_data_of(const CmId& id, const rdma_conn_param* param) {
  if (param != nullptr && param->private_data != nullptr && param->private_data_len > 0) {
    return {static_cast<const std::byte*>(param->private_data), param->private_data_len};
  }
  return id.connect_data;
}

/// The addresses, and then the program's data. False if it doesn't fit.
template <std::size_t size>
bool fill_private_data(CmId& id, ByteView data, ib::cm::PrivateData<size>& area) {
  if (data.size() > size - ib::cm::ip_header_bytes) {
    return false;
  }
  const bool is_v4 = id.destination().sa_family == AF_INET;
  const auto header =
      ib::cm::emit(ib::cm::IpHeader{.ip_version = static_cast<std::uint8_t>(is_v4 ? 4 : 6),
                                    .source_port = port_of(id.source()),
                                    .source = gid_of(id.source()),
                                    .destination = gid_of(id.destination())});
  copy_bytes(area, header);
  copy_bytes(MutableBytes(area).subspan(header.size()), data);
  return true;
}

ib::cm::Route mad_route(const CmId& id) {
  return {.local = id.path.local,
          .remote = id.path.remote,
          .flow_label = id.path.flow_label,
          .traffic_class = id.path.traffic_class,
          .hop_limit = id.path.hop_limit};
}

ib::cm::ServiceId destination_service(CmId& id) {
  return ib::cm::service_id_of(id.port_space(), port_of(id.destination()));
}

Qpn own_qpn(const CmId& id, const rdma_conn_param* param) {
  return Qpn{id.qp != nullptr ? id.qp->qp_num : (param != nullptr ? param->qp_num : 0)};
}

std::uint8_t depth(std::uint8_t wanted, std::uint8_t device_max) {
  return wanted == RDMA_MAX_RESP_RES ? device_max : wanted;
}

Errno connect_datagram(CmId& id, const rdma_conn_param* param) {
  ib::cm::SidrReq req;
  req.service_id = destination_service(id);
  req.pkey = pkey_default;
  if (!fill_private_data(id, private_data_of(id, param), req.private_data)) {
    return EINVAL;
  }
  id.state = IdState::connecting;
  id.comm_id = id.device->cm->resolve(mad_route(id), req, ib::cm::timeout_of(response_timeout),
                                      cm_retries, id.cookie());
  return 0;
}

void set_transport(const CmId& id, ib::cm::Req& req) {
  using ib::cm::TransportType;
  if (id.qp_type == IBV_QPT_XRC_SEND) {
    req.transport = TransportType::extended;
    req.extended_transport = ib::cm::extended_transport_xrc;
  } else {
    req.transport = id.qp_type == IBV_QPT_UC ? TransportType::uc : TransportType::rc;
  }
}

/// Who accepts tells its queue pair and, unless that is an XRC target, what it does in return.
void describe_own_qp(const CmId& id, const rdma_conn_param* param, ib::cm::Rep& rep) {
  if (id.qp_type == IBV_QPT_XRC_RECV) {
    rep.local_eecn = to_value(own_qpn(id, param));
    rep.srq = true;
    return;
  }
  rep.local_qpn = own_qpn(id, param);
  rep.initiator_depth = id.agreement.initiator_depth;
  rep.end_to_end_flow_control = param != nullptr && param->flow_control != 0;
  rep.srq = id.qp != nullptr ? id.qp->srq != nullptr : param != nullptr && param->srq != 0;
}

Errno connect_stream(CmId& id, const rdma_conn_param* param) {
  Agreement& agreed = id.agreement;
  Device& device = *id.device;
  agreed.responder_resources =
      depth(param != nullptr ? param->responder_resources : 0xFF, device.responder_resources_max);
  agreed.initiator_depth =
      depth(param != nullptr ? param->initiator_depth : 0xFF, device.initiator_depth_max);
  agreed.retry_count =
      param != nullptr ? std::min(param->retry_count, retry_count_max) : retry_count_default;
  agreed.rnr_retry_count = param != nullptr ? std::min(param->rnr_retry_count, retry_count_max)
                                            : rnr_retry_count_default;
  if (agreed.responder_resources > device.responder_resources_max ||
      agreed.initiator_depth > device.initiator_depth_max) {
    return EINVAL;
  }
  ib::cm::Req req;
  req.service_id = destination_service(id);
  req.local_qpn = own_qpn(id, param);
  set_transport(id, req);
  req.starting_psn = agreed.receive_psn;
  req.responder_resources = agreed.responder_resources;
  req.initiator_depth = agreed.initiator_depth;
  req.end_to_end_flow_control = param != nullptr && param->flow_control != 0;
  req.remote_cm_response_timeout = response_timeout;
  req.local_cm_response_timeout = response_timeout;
  req.retry_count = agreed.retry_count;
  req.rnr_retry_count = agreed.rnr_retry_count;
  req.max_cm_retries = cm_retries;
  req.pkey = pkey_default;
  req.path_mtu = static_cast<std::uint8_t>(id.path.mtu);
  req.srq = id.srq != nullptr ||
            (id.qp != nullptr ? id.qp->srq != nullptr : param != nullptr && param->srq != 0);
  req.primary.local_lid = lid_permissive;
  req.primary.remote_lid = lid_permissive;
  req.primary.local_gid = id.path.local;
  req.primary.remote_gid = id.path.remote;
  req.primary.flow_label = id.path.flow_label;
  req.primary.traffic_class = id.path.traffic_class;
  req.primary.hop_limit = id.path.hop_limit;
  req.primary.local_ack_timeout = id.path.ack_timeout;
  if (!fill_private_data(id, private_data_of(id, param), req.private_data)) {
    return EINVAL;
  }
  id.state = IdState::connecting;
  id.comm_id = device.cm->connect(mad_route(id), req, id.cookie());
  return 0;
}

Errno connect(CmId& id, const rdma_conn_param* param) {
  if (id.state != IdState::route_resolved) {
    return EINVAL;
  }
  if (id.device->cm->is_dead()) {
    return EIO;
  }
  const Errno error = id.is_datagram() ? connect_datagram(id, param) : connect_stream(id, param);
  return error != 0 ? error : id.complete();
}

Errno accept_datagram(CmId& id, const rdma_conn_param* param) {
  ib::cm::SidrRep rep;
  const ByteView data = private_data_of(id, param);
  if (data.size() > rep.private_data.size()) {
    return EINVAL;
  }
  rep.qpn = own_qpn(id, param);
  rep.service_id = ib::cm::service_id_of(id.port_space(), port_of(id.source()));
  rep.qkey = id.qkey;
  copy_bytes(rep.private_data, data);
  return id.device->cm->answer(id.comm_id, rep) ? 0 : ECONNRESET;
}

Errno accept_stream(CmId& id, const rdma_conn_param* param) {
  ib::cm::Rep rep;
  const ByteView data = private_data_of(id, param);
  if (data.size() > rep.private_data.size()) {
    return EINVAL;
  }
  Agreement& agreed = id.agreement;
  // What the peer proposed, unless the program wants something else; never more than the device
  // can.
  const auto choose = [](std::uint8_t proposed, std::uint8_t wanted, std::uint8_t most) {
    return std::min(wanted == RDMA_MAX_RESP_RES ? proposed : wanted, most);
  };
  agreed.responder_resources =
      choose(agreed.responder_resources, param != nullptr ? param->responder_resources : 0xFF,
             id.device->responder_resources_max);
  agreed.initiator_depth =
      choose(agreed.initiator_depth, param != nullptr ? param->initiator_depth : 0xFF,
             id.device->initiator_depth_max);
  if (id.qp != nullptr) {
    if (const Errno error = make_qp_ready(id)) {
      return error;
    }
  }
  describe_own_qp(id, param, rep);
  rep.starting_psn = agreed.receive_psn;
  rep.responder_resources = agreed.responder_resources;
  rep.target_ack_delay = id.device->ack_delay;
  rep.rnr_retry_count = param != nullptr ? std::min(param->rnr_retry_count, retry_count_max)
                                         : rnr_retry_count_default;
  copy_bytes(rep.private_data, data);
  if (!id.device->cm->accept(id.comm_id, rep)) {
    make_qp_fail(id);
    return ECONNRESET;
  }
  return id.complete();
}

Errno accept(CmId& id, const rdma_conn_param* param) {
  if (id.state != IdState::requested) {
    return EINVAL;
  }
  id.state = IdState::connecting;
  return id.is_datagram() ? accept_datagram(id, param) : accept_stream(id, param);
}

Errno reject(CmId& id, ib::cm::RejectReason reason, const void* data, std::uint8_t length) {
  if (id.device == nullptr) {
    return EINVAL;
  }
  const ByteView bytes(static_cast<const std::byte*>(data), data != nullptr ? length : 0U);
  if (id.is_datagram()) {
    ib::cm::SidrRep rep;
    rep.status = ib::cm::SidrStatus::rejected;
    copy_bytes(rep.private_data, bytes.first(std::min(bytes.size(), rep.private_data.size())));
    return id.device->cm->answer(id.comm_id, rep) ? 0 : EINVAL;
  }
  return id.device->cm->reject(id.comm_id, reason, {}, bytes) ? 0 : EINVAL;
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
  const ib::cm::ServiceId service = ib::cm::service_id_of(id.port_space(), port_of(id.source()));
  const bool anywhere = is_any(id.source());
  const auto address = anywhere ? std::nullopt : std::optional(id.path.local);
  id.state = IdState::listening;
  Errno error = 0;
  for (Device& device : devices()) {
    if (anywhere || &device == id.device) {
      device.cm->listen(service, address, id.cookie());
    }
  }
  for (const Binding& binding : id.bindings) {
    error = error != 0 ? error : binding.device->cm->announce(binding.entry);
  }
  if (error != 0) {
    for (Device& device : devices()) {
      device.cm->unlisten(id.cookie());
    }
    id.state = IdState::bound;
  }
  return error;
}

}  // namespace

Errno migrate(CmId& id, rdma_event_channel* channel) {
  std::unique_ptr<EventChannel> own;
  if (channel == nullptr) {
    own = std::make_unique<EventChannel>();
    if (own->fd < 0) {
      return EMFILE;
    }
  }
  EventChannel* old = nullptr;
  {
    const std::lock_guard guard(library_mutex());
    EventChannel& from = id.events();
    EventChannel& to = own ? *own : EventChannel::of(channel);
    id.channel = &to;
    for (QueuedEvent& event : from.take_events_of(id)) {
      to.push(std::move(event));
    }
    old = id.synchronous ? &from : nullptr;
    id.synchronous = own != nullptr;
    static_cast<void>(own.release());
  }
  delete old;
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
  return guarded(
      [&] { return reject(CmId::of(id), ib::cm::RejectReason::consumer_defined, data, length); });
}

VERBENA_EXPORT int rdma_reject_ece(rdma_cm_id* id, const void* data, std::uint8_t length) {
  return guarded([&] {
    return reject(CmId::of(id), ib::cm::RejectReason::vendor_option_not_supported, data, length);
  });
}

VERBENA_EXPORT int rdma_disconnect(rdma_cm_id* base) {
  return guarded([&]() -> Errno {
    CmId& id = CmId::of(base);
    if (id.device == nullptr || id.comm_id == ib::cm::CommId{}) {
      return EINVAL;
    }
    make_qp_fail(id);
    if (!id.device->cm->disconnect(id.comm_id, {})) {
      return 0;  // It is over already, which is what the program wants.
    }
    // Who agrees to the peer's wish has heard of it; who wishes hears of the end.
    return id.state == IdState::disconnected ? 0 : id.complete();
  });
}

VERBENA_EXPORT int rdma_establish(rdma_cm_id* base) {
  return guarded([&]() -> Errno {
    CmId& id = CmId::of(base);
    if (id.qp != nullptr || id.device == nullptr) {
      return EINVAL;
    }
    if (!id.device->cm->ready(id.comm_id, {})) {
      return EINVAL;
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
      // The RTU may have been faster, which is as good.
      static_cast<void>(id.device->cm->establish(id.comm_id));
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

// Our device has no vendor whose extensions could be negotiated.

VERBENA_EXPORT int rdma_set_local_ece(rdma_cm_id*, ibv_ece*) { return status(EOPNOTSUPP); }

VERBENA_EXPORT int rdma_get_remote_ece(rdma_cm_id*, ibv_ece* ece) {
  *ece = {};
  return 0;
}
