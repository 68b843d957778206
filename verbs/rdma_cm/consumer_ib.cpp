// What the connection manager of a RoCE device tells becomes events of identifiers. Called by its
// thread, under its lock: nothing here calls a queue pair or a device.

#include <fmt/format.h>

#include <memory>
#include <set>
#include <utility>

#include "nic_model/types.h"
#include "ports/device_config.h"
#include "ports/log.h"
#include "proto/roce/gid.h"
#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/cm_id.h"
#include "verbs/rdma_cm/library.h"
#include "verbs/rdma_cm/manager_ib.h"

namespace verbena::rdma_cm {

namespace {

using ib::cm::Event;

/// The consumer's part of a request's private data, and the addresses in front of it.
std::optional<ib::cm::IpHeader> header_of(const ib::cm::Message& message) {
  if (const auto* req = std::get_if<ib::cm::Req>(&message)) {
    return ib::cm::parse_ip_header(req->private_data);
  }
  return ib::cm::parse_ip_header(std::get<ib::cm::SidrReq>(message).private_data);
}

/// Of the queue pair that answers the request.
ibv_qp_type type_for(const ib::cm::Req& req) {
  if (req.is_xrc()) {
    return IBV_QPT_XRC_RECV;
  }
  return req.transport == ib::cm::TransportType::uc ? IBV_QPT_UC : IBV_QPT_RC;
}

/// What the REQ says that the queue pair will need.
void take_request(CmId& id, const ib::cm::Req& req) {
  id.qp_type = type_for(req);
  id.path.flow_label = req.primary.flow_label;
  id.path.traffic_class = req.primary.traffic_class;
  id.path.hop_limit = req.primary.hop_limit;
  id.path.ack_timeout = req.primary.local_ack_timeout;
  id.path.mtu = static_cast<ibv_mtu>(req.path_mtu);
  id.agreement.remote_qpn = req.local_qpn;
  id.agreement.send_psn = req.starting_psn;
  // What one end may start, the other has to answer.
  id.agreement.responder_resources = req.initiator_depth;
  id.agreement.initiator_depth = req.responder_resources;
  id.agreement.retry_count = req.retry_count;
  id.agreement.rnr_retry_count = req.rnr_retry_count;
  id.agreement.srq = req.srq;
  id.remote_ece = req.ece();
}

/// Packets of such a connection would be too long for this port (IBTA vol 1, 12.6.7.2).
bool is_mtu_served(const ib::cm::Req& req, ibv_mtu ours) {
  const auto wanted = static_cast<ibv_mtu>(req.path_mtu);
  return wanted >= IBV_MTU_256 && wanted <= ours;
}

/// Once of each peer, and not of too many: anybody may ask. Under the library's lock.
void tell_of_mtu(const ib::cm::Req& req, const Gid& peer, ibv_mtu ours) {
  constexpr std::size_t told_max = 64;
  // Never destroyed: the connection manager's thread may outlive main().
  static auto& told = *new std::set<Gid>;
  if (told.size() >= told_max || !told.insert(peer).second) {
    return;
  }
  const auto bytes = [](unsigned code) { return nic::mtu_bytes(static_cast<nic::Mtu>(code)); };
  ports::report(fmt::format(
      "refused a connection from {}: it wants packets of {} bytes, and this port takes {} at most "
      "(REJ 26, invalid path MTU); give both ends the same MTU, here with {}",
      roce::to_address_text(peer), bytes(req.path_mtu), bytes(ours), ports::env::mtu));
}

bool is_family_served(const CmId& listener, const ib::cm::IpHeader& header) {
  const auto& address = listener.route.addr.src_addr;
  const bool listens_v4 = address.sa_family == AF_INET;
  const bool came_v4 = header.ip_version == 4;
  return listens_v4 == came_v4 || (!listens_v4 && is_any(address) && !listener.v6_only);
}

void on_sidr_reply(CmId& id, const ib::cm::SidrRep& rep) {
  if (rep.status == ib::cm::SidrStatus::valid) {
    id.push(RDMA_CM_EVENT_ESTABLISHED, 0, rep);
  } else {
    id.push(RDMA_CM_EVENT_UNREACHABLE, static_cast<int>(rep.status), rep);
  }
}

PeerNews news_of(const Event& event) {
  return event.message ? PeerNews(*event.message) : PeerNews();
}

}  // namespace

ports::CmAnswer IbManager::on_cm_event(const Event& event) {
  const std::lock_guard guard(library_mutex());
  CmId& id = CmId::of_cookie(event.cookie);
  const bool is_request =
      event.kind == Event::Kind::request || event.kind == Event::Kind::sidr_request;
  if (!is_request) {
    id.comm_id = event.id;
  }
  switch (event.kind) {
    case Event::Kind::request:
    case Event::Kind::sidr_request:
      return on_request(id, event);
    case Event::Kind::reply:
      id.push(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, news_of(event));
      break;
    case Event::Kind::established:
      id.push(RDMA_CM_EVENT_ESTABLISHED, 0, news_of(event));
      break;
    case Event::Kind::rejected:
      id.push(RDMA_CM_EVENT_REJECTED,
              static_cast<int>(std::get<ib::cm::Rej>(*event.message).reason), news_of(event));
      break;
    case Event::Kind::unreachable:
      id.push(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
      break;
    case Event::Kind::disconnected:
      id.push(RDMA_CM_EVENT_DISCONNECTED);
      break;
    case Event::Kind::timewait_exit:
      id.push(RDMA_CM_EVENT_TIMEWAIT_EXIT);
      break;
    case Event::Kind::sidr_reply:
      on_sidr_reply(id, std::get<ib::cm::SidrRep>(*event.message));
      break;
  }
  return {};
}

ports::CmAnswer IbManager::on_request(CmId& listener, const Event& event) {
  const auto header = header_of(*event.message);
  if (!header || !is_family_served(listener, *header) || !device_.index_of(event.route.local) ||
      listener.requests_waiting >= listener.backlog) {
    return {};
  }
  const auto* req = std::get_if<ib::cm::Req>(&*event.message);
  if (req != nullptr && !is_mtu_served(*req, device_.mtu)) {
    tell_of_mtu(*req, header->source, device_.mtu);
    return {.refusal = ib::cm::RejectReason::invalid_mtu};
  }
  auto fresh = make_requested(listener, device_, event.route.local, event.route.remote);
  fresh->comm_id = event.id;
  const bool is_v4 = header->ip_version == 4;
  write_address(fresh->route.addr.src_storage, header->destination, is_v4,
                port_of(listener.route.addr.src_addr));
  write_address(fresh->route.addr.dst_storage, header->source, is_v4, header->source_port);
  if (req != nullptr) {
    take_request(*fresh, *req);
  }
  publish_path(*fresh);
  return {.cookie = queue_request(listener, std::move(fresh), news_of(event))};
}

}  // namespace verbena::rdma_cm
