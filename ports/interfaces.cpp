#include "ports/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>

#include "ports/packet_sizes.h"
#include "ports/socket_address.h"
#include "ports/sys_net.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

std::vector<InterfaceAddress> host_addresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      const auto address = entry->ifa_addr == nullptr ? std::nullopt : address_of(*entry->ifa_addr);
      if (!address) {
        continue;
      }
      found.push_back(
          {.interface = entry->ifa_name,
           .address = *address,
           .mtu_bytes = sys::interface_mtu(entry->ifa_name).value_or(ethernet_mtu_bytes),
           .interface_index = if_nametoindex(entry->ifa_name)});
    }
    freeifaddrs(list);
  }
  if (found.empty()) {
    found.push_back({.interface = "lo", .address = roce::gid_from_ipv4({{127, 0, 0, 1}})});
  }
  return found;
}

bool is_local(const Gid& address, std::span<const InterfaceAddress> host) {
  return roce::is_loopback(address) ||
         std::ranges::find(host, address, &InterfaceAddress::address) != host.end();
}

}  // namespace verbena::ports
