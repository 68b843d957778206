#include "ports/interfaces.h"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "ports/sys_net.h"

namespace verbena::ports {

namespace {

/// IEEE 802.3: what every Ethernet carries.
constexpr std::size_t ethernet_mtu_bytes = 1500;

}  // namespace

std::vector<InterfaceAddress> host_addresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) {
        continue;
      }
      sockaddr_in socket_address{};
      std::memcpy(&socket_address, entry->ifa_addr, sizeof(socket_address));
      InterfaceAddress& item = found.emplace_back();
      item.interface = entry->ifa_name;
      std::memcpy(item.address.bytes.data(), &socket_address.sin_addr, item.address.bytes.size());
      item.mtu_bytes = sys::interface_mtu(item.interface).value_or(ethernet_mtu_bytes);
    }
    freeifaddrs(list);
  }
  if (found.empty()) {
    found.push_back({.interface = "lo", .address = {{127, 0, 0, 1}}});
  }
  return found;
}

bool is_local(inet::Ipv4Address address, std::span<const InterfaceAddress> host) {
  return address.is_loopback() ||
         std::ranges::find(host, address, &InterfaceAddress::address) != host.end();
}

}  // namespace verbena::ports
