// The IP addresses of this host.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "proto/gid.h"

namespace verbena::ports {

struct InterfaceAddress {
  std::string interface{};
  /// IPv4 addresses are mapped.
  Gid address{};
  /// The largest IP packet that the interface carries, in bytes.
  std::size_t mtu_bytes = 65536;
  /// The kernel's number of the interface; 0 if it isn't known.
  unsigned interface_index = 0;
};

/// The addresses of all interfaces of this network namespace, in the kernel's order; if it doesn't
/// tell, the loopback address.
[[nodiscard]] std::vector<InterfaceAddress> host_addresses();

/// Whether packets to `address` stay on this host: 127.0.0.0/8, ::1, or one of `host`.
[[nodiscard]] bool is_local(const Gid& address, std::span<const InterfaceAddress> host);

}  // namespace verbena::ports
