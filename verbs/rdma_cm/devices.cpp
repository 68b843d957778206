#include "verbs/rdma_cm/devices.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>

#include "base/bytes.h"
#include "verbs/cm_access.h"
#include "verbs/rdma_cm/manager_ib.h"
#include "verbs/rdma_cm/manager_iw.h"

namespace verbena::rdma_cm {

namespace {

/// One port for each device.
constexpr std::uint8_t port = 1;

/// Addresses in the GID table, of a RoCE device.
void read_gids(Device& device) {
  ibv_port_attr attr{};
  if (ibv_query_port(device.context, port, reinterpret_cast<_compat_ibv_port_attr*>(&attr)) != 0) {
    return;
  }
  device.mtu = attr.active_mtu;
  for (int i = 0; i < attr.gid_tbl_len && i <= 255; ++i) {
    ibv_gid_entry entry{};
    const auto index = static_cast<std::uint32_t>(i);
    if (_ibv_query_gid_ex(device.context, port, index, &entry, 0, sizeof entry) == 0 &&
        entry.gid_type == IBV_GID_TYPE_ROCE_V2) {
      device.gids.push_back({read_struct<Gid>(bytes_of(entry.gid)), static_cast<std::uint8_t>(i)});
    }
  }
}

void read_limits(Device& device) {
  ibv_device_attr attr{};
  if (ibv_query_device(device.context, &attr) == 0) {
    device.ack_delay = attr.local_ca_ack_delay;
    device.responder_resources_max = static_cast<std::uint8_t>(std::min(attr.max_qp_rd_atom, 255));
    device.initiator_depth_max = static_cast<std::uint8_t>(std::min(attr.max_qp_init_rd_atom, 255));
  }
}

/// Null, and the user has been told why, if it can't be had.
std::unique_ptr<Manager> make_manager(Device& device) {
  if (device.context->device->transport_type != IBV_TRANSPORT_IWARP) {
    ports::CmDevice* cm = verbena_cm_device(device.context);
    read_gids(device);
    return cm != nullptr ? std::make_unique<IbManager>(device, *cm) : nullptr;
  }
  ports::IwarpDevice* iwarp = verbena_iwarp_device(device.context);
  if (iwarp == nullptr) {
    return nullptr;
  }
  for (const Gid& address : iwarp->addresses()) {
    device.gids.push_back({.gid = address});
  }
  return std::make_unique<IwManager>(device, *iwarp);
}

struct RealAddress {
  Gid gid;
  std::string device;
};

/// The addresses of a real RoCE device, as they are now.
void read_real_addresses(ibv_device* real, std::vector<RealAddress>& addresses) {
  Device device;
  device.context = ibv_open_device(real);
  if (device.context == nullptr) {
    return;
  }
  read_gids(device);
  for (const Device::Row& row : device.gids) {
    addresses.push_back({row.gid, real->name});
  }
  ibv_close_device(device.context);
}

struct Opened {
  /// The elements stay where they are: managers refer to them.
  std::vector<Device> devices;
  /// Looked at once in a process: they may be many, and opening hardware takes a while.
  std::optional<std::vector<RealAddress>> real;
};

Opened open_devices(std::optional<std::vector<RealAddress>> known) {
  std::vector<Device> opened;
  std::vector<RealAddress> real;
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  opened.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    if (!verbena_is_ours(list[i])) {
      if (!known) {
        read_real_addresses(list[i], real);
      }
      continue;
    }
    Device& device = opened.emplace_back();
    device.context = ibv_open_device(list[i]);
    device.manager = device.context != nullptr ? make_manager(device) : nullptr;
    if (device.manager == nullptr) {
      opened.pop_back();
      continue;
    }
    device.pd = ibv_alloc_pd(device.context);
    read_limits(device);
  }
  if (list != nullptr) {
    ibv_free_device_list(list);
  }
  return {.devices = std::move(opened), .real = known ? std::move(known) : std::move(real)};
}

class Registry {
 public:
  /// Devices are opened anew when the process is a child of the one that opened them; ours also as
  /// long as there is none.
  Opened& get() {
    const std::lock_guard guard(mutex_);
    const std::vector<Device>& devices = opened_->devices;
    if (devices.empty()) {
      *opened_ = open_devices(std::move(opened_->real));
    } else if (devices.front().manager->is_dead()) {
      // The old ones are leaked: identifiers of before the fork refer to them.
      opened_ = new Opened(open_devices(std::nullopt));
    }
    return *opened_;
  }

 private:
  std::mutex mutex_;
  Opened* opened_ = new Opened;
};

/// Never destroyed, as devices are never closed.
Registry& registry() {
  static Registry& registry = *new Registry;
  return registry;
}

}  // namespace

std::optional<std::uint8_t> Device::index_of(const Gid& gid) const {
  const auto found = std::ranges::find(gids, gid, &Row::gid);
  return found == gids.end() ? std::nullopt : std::optional(found->index);
}

std::span<Device> devices() { return registry().get().devices; }

std::string real_device_with(const Gid& gid) {
  const auto& real = *registry().get().real;
  const auto found = std::ranges::find(real, gid, &RealAddress::gid);
  return found == real.end() ? "" : found->device;
}

std::vector<Device*> devices_by_preference() {
  std::vector<Device*> all;
  std::ranges::transform(devices(), std::back_inserter(all), [](Device& each) { return &each; });
  std::ranges::stable_partition(all, [](const Device* each) {
    return each->context->device->transport_type != IBV_TRANSPORT_IWARP;
  });
  return all;
}

Device* device_with(const Gid& gid) {
  const auto all = devices_by_preference();
  const auto found = std::ranges::find_if(
      all, [&](const Device* each) { return each->index_of(gid).has_value(); });
  return found == all.end() ? nullptr : *found;
}

Device* device_of(const ibv_context* context) {
  for (Device& device : devices()) {
    if (device.context == context) {
      return &device;
    }
  }
  return nullptr;
}

}  // namespace verbena::rdma_cm

using namespace verbena::rdma_cm;

VERBENA_EXPORT ibv_context** rdma_get_devices(int* num_devices) {
  const auto all = devices();
  auto* list = new (std::nothrow) ibv_context* [all.size() + 1] {};
  if (num_devices != nullptr) {
    *num_devices = list == nullptr ? 0 : static_cast<int>(all.size());
  }
  if (list == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  std::ranges::transform(all, list, &Device::context);
  return list;
}

VERBENA_EXPORT void rdma_free_devices(ibv_context** list) { delete[] list; }
