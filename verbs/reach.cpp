#include "verbs/reach.h"

#include "ports/interfaces.h"
#include "proto/roce/gid.h"

namespace verbena::verbs {

std::optional<std::string> why_unreachable(const ports::DeviceConfig& device,
                                           const Gid& destination) {
  if (roce::is_multicast(destination)) {
    return std::nullopt;
  }
  const auto address = roce::ipv4_from_gid(destination);
  if (!address) {
    return "the peer's GID " + roce::to_text(destination) +
           " is not an IPv4 address; both sides must use a GID of type RoCE v2 over IPv4 "
           "(index 0 is one)";
  }
  if (device.faces_network() || ports::is_local(*address, ports::host_addresses())) {
    return std::nullopt;
  }
  return "the peer's address " + address->to_text() +
         " is not one of this host, and the device has loopback addresses only; give it a network "
         "interface (" +
         ports::env::interface + ") or an address (" + ports::env::address + ")";
}

}  // namespace verbena::verbs
