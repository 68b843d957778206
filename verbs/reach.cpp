#include "verbs/reach.h"

#include "ports/interfaces.h"
#include "proto/roce/gid.h"

namespace verbena::verbs {

std::optional<std::string> why_unreachable(const Gid& destination) {
  const auto address = roce::ipv4_from_gid(destination);
  if (!address) {
    return "the peer's GID " + roce::to_text(destination) +
           " is not an IPv4 address; both sides must use a GID of type RoCE v2 over IPv4 "
           "(index 0 is one)";
  }
  if (ports::is_local(*address, ports::host_addresses())) {
    return std::nullopt;
  }
  return "the peer's address " + address->to_text() +
         " is not one of this host; the device connects processes of one host only";
}

}  // namespace verbena::verbs
