#include "verbs/reach.h"

#include "ports/interfaces.h"
#include "proto/roce/gid.h"

namespace verbena::verbs {

std::optional<std::string> why_unreachable(const ports::DeviceConfig& device,
                                           const nic::AddressVector& av) {
  if (device.technology == nic::Technology::iwarp) {
    return std::nullopt;  // It has no use for an address vector, and says so.
  }
  const Gid& destination = av.dgid;
  const auto gids = ports::nic_config(device).gids;
  if (roce::is_multicast(destination) || av.sgid_index >= gids.size()) {
    return std::nullopt;
  }
  const nic::GidEntry& own = gids[av.sgid_index];
  const bool own_is_ipv4 = roce::ipv4_from_gid(own.gid).has_value();
  const bool is_ipv4 = roce::ipv4_from_gid(destination).has_value();
  if (own.type == nic::GidEntry::Type::roce_v2 && own_is_ipv4 && !is_ipv4) {
    return "the peer's GID " + roce::to_text(destination) +
           " is not an IPv4 address; both sides must use a GID of type RoCE v2 over IPv4 "
           "(index 0 is one)";
  }
  // A device has a link-local address that the kernel may not know.
  if (device.faces_network() || roce::ipv6_from_gid(destination).is_link_local() ||
      ports::is_local(destination, ports::host_addresses())) {
    return std::nullopt;
  }
  return "the peer's address " + roce::to_address_text(destination) +
         " is not one of this host, and the device has loopback addresses only; give it a network "
         "interface (" +
         ports::env::interface + ") or an address (" + ports::env::address + ")";
}

}  // namespace verbena::verbs
