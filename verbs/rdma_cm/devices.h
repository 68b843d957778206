// The devices as the connection manager uses them: each is opened once, when the first program asks
// for it, and never closed, as programs may go on using contexts that they got from us.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/gid.h"
#include "verbs/rdma_cm/abi.h"
#include "verbs/rdma_cm/manager.h"

namespace verbena::rdma_cm {

struct Device {
  ibv_context* context = nullptr;
  std::unique_ptr<Manager> manager;
  /// Its addresses: rows of the GID table of RoCE v2 with their indices, or those of its sockets.
  struct Row {
    Gid gid;
    std::uint8_t index = 0;
  };
  std::vector<Row> gids;
  ibv_mtu mtu = IBV_MTU_1024;
  std::uint8_t ack_delay = 0;
  std::uint8_t responder_resources_max = 0;
  std::uint8_t initiator_depth_max = 0;

  /// Where queue pairs live whose program brings no protection domain.
  ibv_pd* pd = nullptr;

  /// The same for XRC domains; null until there is one.
  ibv_xrcd* xrcd = nullptr;

  [[nodiscard]] std::optional<std::uint8_t> index_of(const Gid& gid) const;
};

/// The devices of this process; empty, and the user has been told why, if there is none.
[[nodiscard]] std::span<Device> devices();
/// The same in the order in which they are chosen: of two with one address the RoCE device.
[[nodiscard]] std::vector<Device*> devices_by_preference();
/// nullptr if no device has that address.
[[nodiscard]] Device* device_with(const Gid& gid);
[[nodiscard]] Device* device_of(const ibv_context* context);

/// The name of the host's real device with that address, in a process that has such devices beside
/// ours (docs/real-devices.md); empty if there is none. We don't serve it: its connection manager
/// is the kernel's.
[[nodiscard]] std::string real_device_with(const Gid& gid);

}  // namespace verbena::rdma_cm
