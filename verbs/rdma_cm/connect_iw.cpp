// Connections of iWARP devices: listening, connecting, accepting, and their ends.

#include <algorithm>

#include "proto/roce/gid.h"
#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/cm_id.h"
#include "verbs/rdma_cm/manager_iw.h"

namespace verbena::rdma_cm {

namespace {

ports::SocketAddress socket_address_of(const sockaddr& address) {
  ports::SocketAddress result;
  copy_address(result.storage, address);
  result.bytes = length_of(address);
  return result;
}

/// What the identifier's socket is bound to. An address of this host that led to a device of
/// another is one that programs know, and the kernel may not.
ports::SocketAddress local_address(CmId& id, std::uint16_t port) {
  ports::SocketAddress result = gid_of(id.source()) == id.path.local || id.device == nullptr
                                    ? socket_address_of(id.source())
                                    : ports::socket_address(id.path.local, port, 0);
  set_port(*result.get(), port);
  return result;
}

ports::SocketAddress remote_address(CmId& id) {
  return gid_of(id.destination()) == id.path.remote
             ? socket_address_of(id.destination())
             : ports::socket_address(id.path.remote, port_of(id.destination()), 0);
}

}  // namespace

IwManager::IwManager(Device& device, ports::IwarpDevice& iwarp) : device_(device), iwarp_(iwarp) {
  iwarp_.set_consumer(*this);
}

bool IwManager::is_on_this_host(const Gid& gid) const {
  return std::ranges::find(iwarp_.addresses(), gid) != iwarp_.addresses().end() ||
         std::ranges::all_of(iwarp_.addresses(), roce::is_loopback);
}

std::string IwManager::port_table() const {
  return std::string("TCP of ") + ibv_get_device_name(device_.context->device);
}

Result<Binding, Errno> IwManager::bind(CmId& id, std::uint16_t port) {
  if (!serves(id.ps)) {
    return std::unexpected(EOPNOTSUPP);
  }
  const auto bound = iwarp_.bind(
      {.address = local_address(id, port), .reuse = id.reuse_address, .v6_only = id.v6_only});
  if (!bound) {
    return std::unexpected(bound.error());
  }
  return Binding{.device = &device_, .handle = to_value(bound->id), .port = bound->port};
}

void IwManager::release(const Binding& binding) {
  iwarp_.release(ports::IwarpPortId{binding.handle});
}

Errno IwManager::listen(CmId& id) {
  auto own = std::ranges::find(id.bindings, &device_, &Binding::device);
  if (own == id.bindings.end()) {
    // A call that failed has released it.
    const auto bound = bind(id, port_of(id.source()));
    if (!bound) {
      return bound.error();
    }
    own = id.bindings.insert(own, *bound);
  }
  return iwarp_.listen(ports::IwarpPortId{own->handle}, static_cast<int>(id.backlog), id.cookie());
}

void IwManager::unlisten(CmId& id) {
  std::erase_if(id.bindings, [&](const Binding& binding) {
    if (binding.device == &device_) {
      release(binding);
    }
    return binding.device == &device_;
  });
}

// No path record: what it would say is about InfiniBand. Linux gives none either.
void IwManager::publish_path(CmId&) {}

Errno IwManager::connect(CmId& id, const rdma_conn_param* param) {
  const iwarp::ReadDepths most = iwarp_.depths_max();
  const auto depth = [](std::uint16_t wanted, std::uint16_t device_max) {
    return wanted == RDMA_MAX_RESP_RES ? device_max : wanted;
  };
  const iwarp::ReadDepths depths = {.ird = depth(responder_resources_of(param), most.ird),
                                    .ord = depth(initiator_depth_of(param), most.ord)};
  const auto bound = std::ranges::find(id.bindings, &device_, &Binding::device);
  // Before the answer can come, and another thread fetch it.
  id.state = IdState::connecting;
  const auto connection =
      iwarp_.connect({.remote = remote_address(id),
                      .local = local_address(id, port_of(id.source())),
                      .bound = bound == id.bindings.end() ? ports::IwarpPortId{}
                                                          : ports::IwarpPortId{bound->handle},
                      .qpn = own_qpn(id, param),
                      .depths = depths,
                      .private_data = private_data_of(id, param),
                      .cookie = id.cookie()});
  if (!connection) {
    id.state = IdState::route_resolved;
    return connection.error();
  }
  id.stream_id = *connection;
  return 0;
}

Errno IwManager::accept(CmId& id, const rdma_conn_param* param) {
  const iwarp::ReadDepths most = iwarp_.depths_max();
  // What the peer proposed, unless the program wants something else.
  const auto choose = [](std::uint8_t proposed, std::uint8_t wanted, std::uint16_t device_max) {
    return std::min<std::uint16_t>(wanted == RDMA_MAX_RESP_RES ? proposed : wanted, device_max);
  };
  const iwarp::ReadDepths depths = {
      .ird = choose(id.agreement.responder_resources, responder_resources_of(param), most.ird),
      .ord = choose(id.agreement.initiator_depth, initiator_depth_of(param), most.ord)};
  const Errno error =
      iwarp_.accept(id.stream_id, own_qpn(id, param), depths, private_data_of(id, param));
  if (error == EINVAL) {
    id.state = IdState::requested;  // It still waits for an answer.
  } else if (error != 0) {
    make_qp_fail(id);
  }
  return error;
}

Errno IwManager::refuse(CmId& id, Refusal, ByteView data) {
  return iwarp_.reject(id.stream_id, data);
}

Errno IwManager::disconnect(CmId& id) {
  if (id.stream_id == ports::IwarpConnectionId{}) {
    return EINVAL;
  }
  return iwarp_.disconnect(id.stream_id, false) == 0 ? 0 : ENOTCONN;
}

// The device has made the queue pair ready, whoever created it.
Errno IwManager::establish(CmId&) { return EINVAL; }

// There is nothing that could be overtaken: all comes in one stream.
void IwManager::note_traffic(CmId&) {}

void IwManager::forget(CmId& id) {
  if (id.stream_id != ports::IwarpConnectionId{}) {
    iwarp_.destroy(id.stream_id);
  }
}

Errno IwManager::init_qp_attr(CmId& id, ibv_qp_attr& attr, int& mask) {
  attr.port_num = id.port_num;
  mask = IBV_QP_PORT;
  switch (attr.qp_state) {
    case IBV_QPS_INIT:
    case IBV_QPS_RTR:
      // Linux' drivers of such devices leave the rights to the memory regions. A device without
      // atomics forgets the last one.
      attr.qp_access_flags =
          IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
      mask |= IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
      return 0;
    case IBV_QPS_RTS:
      return 0;
    default:
      return EINVAL;
  }
}

}  // namespace verbena::rdma_cm
