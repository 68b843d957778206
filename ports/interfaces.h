// The IPv4 addresses of this host.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "proto/inet/ip_address.h"

namespace verbena::ports {

struct InterfaceAddress {
  std::string interface;
  inet::Ipv4Address address;
  /// The largest IP packet that the interface carries, in bytes.
  std::size_t mtu_bytes = 65536;
};

/// The addresses of all interfaces of this network namespace, in the kernel's order; if it doesn't
/// tell, the loopback address.
[[nodiscard]] std::vector<InterfaceAddress> host_addresses();

/// Whether packets to `address` stay on this host: 127.0.0.0/8, or one of `host`.
[[nodiscard]] bool is_local(inet::Ipv4Address address, std::span<const InterfaceAddress> host);

}  // namespace verbena::ports
