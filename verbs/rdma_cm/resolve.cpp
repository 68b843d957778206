// Addresses: binding ports, and finding the device and the path to a destination.

#include <fmt/format.h>
#include <infiniband/sa.h>

#include <algorithm>
#include <span>

#include "base/bytes.h"
#include "ports/log.h"
#include "proto/roce/gid.h"
#include "proto/roce/sport.h"
#include "verbs/rdma_cm/address.h"
#include "verbs/rdma_cm/cm_id.h"
#include "verbs/rdma_cm/library.h"

namespace verbena::rdma_cm {

namespace {

/// The source address and device for a destination.
struct Local {
  Device* device = nullptr;
  Gid gid;
  /// The destination's GID; another than its address when a loopback address leads to a device
  /// that has none.
  Gid remote;
};

/// An address of this device that a peer of the same family can be reached from; IPv4 otherwise.
std::optional<Gid> address_like(const Device& device, const sockaddr& address) {
  const bool wants_v4 = address.sa_family == AF_INET;
  for (const Device::Row& row : device.gids) {
    if (roce::ipv4_from_gid(row.gid).has_value() == wants_v4) {
      return row.gid;
    }
  }
  return device.gids.empty() ? std::nullopt : std::optional(device.gids.front().gid);
}

/// Whether the kernel has that address, or would send to it by the loopback interface.
bool is_of_this_host(const sockaddr& address) {
  return is_loopback(address) || (!is_any(address) && source_for(address) == gid_of(address));
}

/// An address of this host that is no device's leads to the first device, to itself.
std::optional<Local> loopback_local(const sockaddr& address) {
  for (Device* device : devices_by_preference()) {
    if (const auto gid = address_like(*device, address)) {
      return Local{device, *gid, *gid};
    }
  }
  return std::nullopt;
}

std::optional<Local> local_for(const CmId& id, const sockaddr& source, const sockaddr& to) {
  const Gid remote = gid_of(to);
  if (id.device != nullptr) {
    return Local{id.device, id.path.local, remote_from(id, to)};
  }
  if (source.sa_family != AF_UNSPEC && !is_any(source)) {
    Device* device = device_with(gid_of(source));
    return device != nullptr ? std::optional(Local{device, gid_of(source), remote}) : std::nullopt;
  }
  if (Device* device = device_with(remote)) {
    return Local{device, remote, remote};
  }
  for (Device& device : devices()) {
    if (const auto from = device.manager->address_toward(remote)) {
      return Local{&device, *from, remote};
    }
  }
  if (is_of_this_host(to)) {
    return real_device_with(remote).empty() ? loopback_local(to) : std::nullopt;
  }
  if (const auto from = source_for(to)) {
    if (Device* device = device_with(*from)) {
      return Local{device, *from, remote};
    }
  }
  // Groups are reached from anywhere, other hosts from a device that faces a network.
  for (Device* device : devices_by_preference()) {
    const auto gid = address_like(*device, to);
    if (gid && (is_multicast(to) || device->manager->may_lead_to(remote))) {
      return Local{device, *gid, remote};
    }
  }
  return std::nullopt;
}

/// Where an identifier without a device binds: one for each table of ports.
std::vector<Device*> one_per_port_table(rdma_port_space space) {
  std::vector<Device*> found;
  for (Device& device : devices()) {
    const auto same = [&](const Device* other) {
      return other->manager->port_table() == device.manager->port_table();
    };
    if (device.manager->serves(space) && std::ranges::none_of(found, same)) {
      found.push_back(&device);
    }
  }
  return found;
}

/// Binds one port on all of them.
Errno bind_on(CmId& id, std::span<Device* const> all, std::uint16_t port) {
  for (Device* device : all) {
    const auto bound = device->manager->bind(id, port);
    if (!bound) {
      release_bindings(id);
      return bound.error();
    }
    port = bound->port;
    id.bindings.push_back(*bound);
  }
  set_port(id.source(), port);
  return 0;
}

/// Binds the port of id.source(), on one device or, with any address, on all.
Errno bind_port(CmId& id) {
  const auto all = id.device != nullptr ? std::vector{id.device} : one_per_port_table(id.ps);
  if (all.empty()) {
    return EOPNOTSUPP;
  }
  const std::uint16_t wanted = port_of(id.source());
  // What is free in the first table may be taken in the second.
  constexpr int attempts_max = 16;
  Errno error = bind_on(id, all, wanted);
  for (int attempt = 1; error == EADDRINUSE && wanted == 0 && attempt < attempts_max; ++attempt) {
    error = bind_on(id, all, wanted);
  }
  return error;
}

/// True if the address is a real device's, of which the user is told then.
bool is_real_devices(const Gid& gid) {
  const std::string name = real_device_with(gid);
  if (!name.empty()) {
    ports::report(fmt::format(
        "{} is an address of {}, a real device; librdmacm serves ours only. A program that needs "
        "rdma_cm on {} has to run without Verbena",
        roce::to_address_text(gid), name, name));
  }
  return !name.empty();
}

void say_unreachable(const sockaddr& destination) {
  const auto from = source_for(destination);
  if (is_real_devices(gid_of(destination)) || (from && is_real_devices(*from))) {
    return;
  }
  std::string addresses;
  for (const Device& device : devices()) {
    for (const Device::Row& row : device.gids) {
      addresses += (addresses.empty() ? "" : ", ") + roce::to_address_text(row.gid);
    }
  }
  ports::report(fmt::format(
      "no device leads to {}; their addresses are {}. Give one an address of that network "
      "(VERBENA_ADDRESS, VERBENA_INTERFACE, or --address of `verbena run`)",
      text_of(destination), addresses));
}

}  // namespace

void release_bindings(CmId& id) {
  for (const Binding& binding : id.bindings) {
    binding.device->manager->release(binding);
  }
  id.bindings.clear();
}

Gid remote_from(const CmId& id, const sockaddr& to) {
  const Gid remote = gid_of(to);
  // Of what is on a link the kernel knows nothing: it may have the same address for itself.
  const bool itself = !id.device->index_of(remote) && !id.device->manager->address_toward(remote) &&
                      is_of_this_host(to);
  return itself ? id.path.local : remote;
}

Errno bind_addr(CmId& id, const sockaddr& address) {
  if (id.state != IdState::idle) {
    return EINVAL;
  }
  if (!is_known_family(address)) {
    return EAFNOSUPPORT;
  }
  const auto old_source = id.route.addr.src_storage;
  copy_address(id.route.addr.src_storage, address);
  if (!is_any(address)) {
    Device* device = device_with(gid_of(address));
    if (device == nullptr && is_real_devices(gid_of(address))) {
      id.route.addr.src_storage = old_source;
      return ENODEV;
    }
    const auto loopback =
        device == nullptr && is_of_this_host(address) ? loopback_local(address) : std::nullopt;
    if (device == nullptr && !loopback) {
      id.route.addr.src_storage = old_source;
      return is_multicast(address) ? EADDRNOTAVAIL : ENODEV;
    }
    id.set_device(device != nullptr ? *device : *loopback->device,
                  device != nullptr ? gid_of(address) : loopback->gid);
  }
  if (const Errno error = bind_port(id)) {
    return error;
  }
  id.state = IdState::bound;
  return 0;
}

Errno resolve_addr(CmId& id, const sockaddr* source, const sockaddr& destination) {
  if (!is_known_family(destination) || (source != nullptr && !is_known_family(*source))) {
    return EAFNOSUPPORT;
  }
  if (id.state != IdState::idle && id.state != IdState::bound) {
    return EINVAL;
  }
  if (id.state == IdState::idle && source != nullptr) {
    if (const Errno error = bind_addr(id, *source)) {
      return error;
    }
  }
  copy_address(id.route.addr.dst_storage, destination);
  const auto local = local_for(id, id.source(), destination);
  if (!local) {
    say_unreachable(destination);
    const std::lock_guard guard(library_mutex());
    id.push(RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
    return 0;
  }
  const bool bound = id.state == IdState::bound;
  const std::uint16_t port = bound ? port_of(id.source()) : 0;
  const bool is_v4 = destination.sa_family == AF_INET;
  // An address of this host that led to a device of another stays what both programs call it.
  const Gid named = local->gid == local->remote ? gid_of(destination) : local->gid;
  if (!bound || is_any(id.source())) {
    write_address(id.route.addr.src_storage, named, is_v4, port);
  }
  id.set_device(*local->device, local->gid);
  id.path.remote = local->remote;
  if (!bound) {
    if (const Errno error = bind_port(id)) {
      return error;
    }
  }
  id.state = IdState::addr_resolved;
  id.manager().publish_path(id);
  const std::lock_guard guard(library_mutex());
  id.push(RDMA_CM_EVENT_ADDR_RESOLVED);
  return 0;
}

namespace {

constexpr std::uint32_t flow_label_mask = 0xF'FFFF;

/// The route stands in id.path.
void tell_route(CmId& id) {
  id.state = IdState::route_resolved;
  id.manager().publish_path(id);
  const std::lock_guard guard(library_mutex());
  id.push(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

}  // namespace

Errno resolve_route(CmId& id) {
  if (id.state != IdState::addr_resolved) {
    return EINVAL;
  }
  // As Linux computes it, so that the UDP source port follows (notes of
  // drivers/infiniband/core/cma.c: cma_get_roce_udp_flow_label).
  id.path.flow_label =
      (std::uint32_t{port_of(id.source())} * 31 + port_of(id.destination())) & flow_label_mask;
  id.path.traffic_class = id.tos;
  // 0 is for the queue pair alone, which waits for ever then; a path says how long packets live.
  if (id.ack_timeout_option.value_or(0) != 0) {
    id.path.ack_timeout = *id.ack_timeout_option;
  }
  tell_route(id);
  return 0;
}

namespace {

/// Of the records that a program offers, the one for both directions (as the kernel's
/// ucma_set_ib_path() chooses); nullopt if there is none, or something else.
std::optional<ibv_path_record> primary_path(std::span<const std::byte> offered) {
  constexpr std::uint32_t wanted =
      IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
  if (offered.size() % sizeof(ibv_path_data) != 0) {
    return std::nullopt;
  }
  for (; !offered.empty(); offered = offered.subspan(sizeof(ibv_path_data))) {
    const auto data = read_struct<ibv_path_data>(offered);
    if (data.flags == wanted) {
      return data.path;
    }
  }
  return std::nullopt;
}

/// RDMA_OPTION_IB_PATH: a route that the program brings, in the place of rdma_resolve_route(). It
/// says how to go; whereto, the addresses have said.
Errno use_path(CmId& id, std::span<const std::byte> offered) {
  const auto record = primary_path(offered);
  if (!record || id.state != IdState::addr_resolved ||
      id.verbs->device->transport_type == IBV_TRANSPORT_IWARP) {
    return EINVAL;
  }
  // A selector is above each number (IBTA vol 1, 15.2.5.16).
  constexpr unsigned number_mask = 0x3F;
  const unsigned mtu = record->mtu & number_mask;
  const unsigned life = record->packetlifetime & number_mask;
  constexpr unsigned ack_timeout_max = 31;
  if (mtu < IBV_MTU_256 || mtu > id.device->mtu || life >= ack_timeout_max ||
      read_struct<Gid>(bytes_of(record->sgid)) != id.path.local ||
      read_struct<Gid>(bytes_of(record->dgid)) != id.path.remote) {
    return EINVAL;
  }
  const std::uint32_t flow_label_and_hop_limit = ntohl(record->flowlabel_hoplimit);
  id.path.flow_label = flow_label_and_hop_limit >> 8 & flow_label_mask;
  const auto hop_limit = static_cast<std::uint8_t>(flow_label_and_hop_limit);
  if (hop_limit != 0) {
    id.path.hop_limit = hop_limit;
  }
  id.path.traffic_class = record->tclass;
  id.path.mtu = static_cast<ibv_mtu>(mtu);
  id.path.ack_timeout = static_cast<std::uint8_t>(life + 1);
  tell_route(id);
  return 0;
}

}  // namespace

}  // namespace verbena::rdma_cm

using namespace verbena::rdma_cm;

VERBENA_EXPORT int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  return guarded([&] { return bind_addr(CmId::of(id), *address); });
}

VERBENA_EXPORT int rdma_resolve_addr(rdma_cm_id* base, sockaddr* source, sockaddr* destination,
                                     int /*timeout_ms*/) {
  return guarded([&]() -> Errno {
    CmId& id = CmId::of(base);
    const Errno error = resolve_addr(id, source, *destination);
    return error != 0 ? error : id.complete();
  });
}

VERBENA_EXPORT int rdma_resolve_route(rdma_cm_id* base, int /*timeout_ms*/) {
  return guarded([&]() -> Errno {
    CmId& id = CmId::of(base);
    const Errno error = resolve_route(id);
    return error != 0 ? error : id.complete();
  });
}

VERBENA_EXPORT __be16 rdma_get_src_port(rdma_cm_id* id) {
  const sockaddr& address = CmId::of(id).source();
  return is_known_family(address) ? htons(port_of(address)) : 0;
}

VERBENA_EXPORT __be16 rdma_get_dst_port(rdma_cm_id* id) {
  const sockaddr& address = CmId::of(id).destination();
  return is_known_family(address) ? htons(port_of(address)) : 0;
}

VERBENA_EXPORT int rdma_set_option(rdma_cm_id* base, int level, int name, void* value,
                                   std::size_t length) {
  CmId& id = CmId::of(base);
  if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH) {
    return guarded([&]() -> Errno {
      const Errno error = use_path(id, {static_cast<const std::byte*>(value), length});
      return error != 0 ? error : id.complete();
    });
  }
  if (level != RDMA_OPTION_ID) {
    return status(ENOSYS);
  }
  const bool is_byte = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT;
  if (length != (is_byte ? sizeof(std::uint8_t) : sizeof(int))) {
    return status(EINVAL);
  }
  const int number =
      is_byte ? *static_cast<const std::uint8_t*>(value) : *static_cast<const int*>(value);
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      id.tos = static_cast<std::uint8_t>(number);
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      id.reuse_address = number != 0;
      return id.state == IdState::idle ? 0 : status(EINVAL);
    case RDMA_OPTION_ID_AFONLY:
      id.v6_only = number != 0;
      return id.state == IdState::idle ? 0 : status(EINVAL);
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      id.ack_timeout_option = static_cast<std::uint8_t>(number & 31);
      return 0;
    default:
      return status(ENOSYS);
  }
}
