// Connections of RoCE devices: listening, connecting, accepting, and their ends.

#include <algorithm>
#include <boost/endian/conversion.hpp>

#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/cm_id.h"
#include "verbs/rdma_cm/manager_ib.h"

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

std::uint8_t depth(std::uint8_t wanted, std::uint8_t device_max) {
  return wanted == RDMA_MAX_RESP_RES ? device_max : wanted;
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

}  // namespace

IbManager::IbManager(Device& device, ports::CmDevice& cm) : device_(device), cm_(cm) {
  cm_.set_consumer(*this);
}

bool IbManager::is_on_this_host(const Gid& gid) const { return cm_.is_on_this_host(gid); }

std::optional<Gid> IbManager::address_toward(const Gid& gid) const {
  return cm_.address_toward(gid);
}

bool IbManager::may_lead_to(const Gid& gid) const { return cm_.may_lead_to(gid); }

Result<Binding, Errno> IbManager::bind(CmId& id, std::uint16_t port) {
  const bool anywhere = id.device == nullptr;
  const auto bound = cm_.bind({.space = to_value(ib::cm::service_id_of(id.port_space(), 0)),
                               .port = port,
                               .address = anywhere ? gid_of(id.source()) : id.path.local,
                               .reuse = id.reuse_address,
                               .v6_only = id.v6_only});
  if (!bound) {
    return std::unexpected(bound.error());
  }
  return Binding{.device = &device_, .handle = to_value(bound->entry), .port = bound->port};
}

void IbManager::release(const Binding& binding) {
  cm_.release(ports::ServiceEntryId{static_cast<std::uint32_t>(binding.handle)});
}

Errno IbManager::listen(CmId& id) {
  const auto service = ib::cm::service_id_of(id.port_space(), port_of(id.source()));
  const auto address = is_any(id.source()) ? std::nullopt : std::optional(id.path.local);
  cm_.listen(service, address, id.cookie());
  // One of the devices of a fabric has bound the port for all of them.
  for (const Binding& binding : id.bindings) {
    if (binding.device != &device_) {
      continue;
    }
    if (const Errno error =
            cm_.announce(ports::ServiceEntryId{static_cast<std::uint32_t>(binding.handle)})) {
      return error;
    }
  }
  return 0;
}

void IbManager::unlisten(CmId& id) { cm_.unlisten(id.cookie()); }

void IbManager::publish_path(CmId& id) {
  const Path& path = id.path;
  constexpr std::uint8_t exactly = 2;  // IB_SA_EQ: the selectors of a path record.
  id.path_record = std::make_unique<ibv_sa_path_rec>();
  ibv_sa_path_rec* const record = id.path_record.get();
  record->sgid = abi_gid(path.local);
  record->dgid = abi_gid(path.remote);
  record->flow_label = htobe32(path.flow_label);
  record->hop_limit = path.hop_limit;
  record->traffic_class = path.traffic_class;
  record->reversible = 1;
  record->numb_path = 1;
  record->pkey = htobe16(to_value(pkey_default));
  record->mtu_selector = exactly;
  record->mtu = static_cast<std::uint8_t>(path.mtu);
  record->rate_selector = exactly;
  record->packet_life_time_selector = exactly;
  record->packet_life_time = static_cast<std::uint8_t>(path.ack_timeout - 1);
  id.route.path_rec = record;
  id.route.num_paths = 1;
  id.route.addr.addr.ibaddr.dgid = abi_gid(path.remote);
}

Errno IbManager::connect_datagram(CmId& id, const rdma_conn_param* param) {
  ib::cm::SidrReq req;
  req.service_id = destination_service(id);
  req.pkey = pkey_default;
  if (!fill_private_data(id, private_data_of(id, param), req.private_data)) {
    return EINVAL;
  }
  id.state = IdState::connecting;
  id.comm_id = cm_.resolve(mad_route(id), req, ib::cm::timeout_of(response_timeout), cm_retries,
                           id.cookie());
  return 0;
}

Errno IbManager::connect_stream(CmId& id, const rdma_conn_param* param) {
  Agreement& agreed = id.agreement;
  agreed.responder_resources =
      depth(responder_resources_of(param), device_.responder_resources_max);
  agreed.initiator_depth = depth(initiator_depth_of(param), device_.initiator_depth_max);
  agreed.retry_count =
      param != nullptr ? std::min(param->retry_count, retry_count_max) : retry_count_default;
  agreed.rnr_retry_count = param != nullptr ? std::min(param->rnr_retry_count, retry_count_max)
                                            : rnr_retry_count_default;
  if (agreed.responder_resources > device_.responder_resources_max ||
      agreed.initiator_depth > device_.initiator_depth_max) {
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
  req.set_ece(id.local_ece);
  if (!fill_private_data(id, private_data_of(id, param), req.private_data)) {
    return EINVAL;
  }
  id.state = IdState::connecting;
  id.comm_id = cm_.connect(mad_route(id), req, id.cookie());
  return 0;
}

Errno IbManager::connect(CmId& id, const rdma_conn_param* param) {
  return id.is_datagram() ? connect_datagram(id, param) : connect_stream(id, param);
}

Errno IbManager::accept_datagram(CmId& id, const rdma_conn_param* param) {
  ib::cm::SidrRep rep;
  const ByteView data = private_data_of(id, param);
  if (data.size() > rep.private_data.size()) {
    return EINVAL;
  }
  rep.qpn = own_qpn(id, param);
  rep.service_id = ib::cm::service_id_of(id.port_space(), port_of(id.source()));
  rep.qkey = id.qkey;
  copy_bytes(rep.private_data, data);
  return cm_.answer(id.comm_id, rep) ? 0 : ECONNRESET;
}

Errno IbManager::accept_stream(CmId& id, const rdma_conn_param* param) {
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
  agreed.responder_resources = choose(agreed.responder_resources, responder_resources_of(param),
                                      device_.responder_resources_max);
  agreed.initiator_depth =
      choose(agreed.initiator_depth, initiator_depth_of(param), device_.initiator_depth_max);
  if (id.qp != nullptr) {
    if (const Errno error = make_qp_ready(id)) {
      return error;
    }
  }
  describe_own_qp(id, param, rep);
  rep.starting_psn = agreed.receive_psn;
  rep.responder_resources = agreed.responder_resources;
  rep.target_ack_delay = device_.ack_delay;
  rep.rnr_retry_count = param != nullptr ? std::min(param->rnr_retry_count, retry_count_max)
                                         : rnr_retry_count_default;
  rep.set_ece(id.local_ece);
  copy_bytes(rep.private_data, data);
  if (!cm_.accept(id.comm_id, rep)) {
    make_qp_fail(id);
    return ECONNRESET;
  }
  return 0;
}

Errno IbManager::accept(CmId& id, const rdma_conn_param* param) {
  return id.is_datagram() ? accept_datagram(id, param) : accept_stream(id, param);
}

Errno IbManager::refuse(CmId& id, Refusal refusal, ByteView data) {
  if (id.is_datagram()) {
    ib::cm::SidrRep rep;
    rep.status = ib::cm::SidrStatus::rejected;
    copy_bytes(rep.private_data, data.first(std::min(data.size(), rep.private_data.size())));
    return cm_.answer(id.comm_id, rep) ? 0 : EINVAL;
  }
  const auto reason = refusal == Refusal::consumer
                          ? ib::cm::RejectReason::consumer_defined
                          : ib::cm::RejectReason::vendor_option_not_supported;
  return cm_.reject(id.comm_id, reason, {}, data) ? 0 : EINVAL;
}

Errno IbManager::disconnect(CmId& id) {
  if (id.comm_id == ib::cm::CommId{}) {
    return EINVAL;
  }
  make_qp_fail(id);
  return cm_.disconnect(id.comm_id, {}) ? 0 : ENOTCONN;
}

Errno IbManager::establish(CmId& id) { return cm_.ready(id.comm_id, {}) ? 0 : EINVAL; }

void IbManager::note_traffic(CmId& id) {
  // The RTU may have been faster, which is as good.
  static_cast<void>(cm_.establish(id.comm_id));
}

void IbManager::forget(CmId& id) {
  if (id.comm_id != ib::cm::CommId{}) {
    cm_.destroy(id.comm_id);
  }
}

}  // namespace verbena::rdma_cm
