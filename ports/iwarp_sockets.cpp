#include "ports/iwarp_sockets.h"

#include <algorithm>
#include <cerrno>

#include "ports/interfaces.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

/// An ephemeral port that is free on one address may be taken on another: then the next is tried.
constexpr int ephemeral_attempts_max = 64;

bool is_wildcard(const Gid& address) {
  return address == Gid{} || address == roce::gid_from_ipv4({});
}

/// The interface on which this host has that address.
unsigned interface_of(const Gid& address, std::span<const InterfaceAddress> host) {
  const auto found = std::ranges::find(host, address, &InterfaceAddress::address);
  return found != host.end() ? found->interface_index : 0;
}

/// What a claim covers, port and all.
std::vector<SocketAddress> covered(const IwarpBindClaim& claim, std::span<const Gid> addresses) {
  const auto wanted = address_of(*claim.address.get());
  std::vector<SocketAddress> result;
  if (!wanted) {
    return result;
  }
  const std::uint16_t port = port_of(claim.address);
  const auto host = host_addresses();
  const bool is_v4 = claim.address.storage.ss_family == AF_INET;
  for (const Gid& address : addresses) {
    if (!is_wildcard(*wanted)) {
      if (address == *wanted) {
        result.push_back(with_scope(claim.address, address));
      }
    } else if (roce::ipv4_from_gid(address) ? is_v4 || !claim.v6_only : !is_v4) {
      result.push_back(socket_address(address, port, interface_of(address, host)));
    }
  }
  return result;
}

/// Whether others may bind the same is decided while they do: a socket that is only bound says no
/// unless the program says otherwise. But connections of former times that only wait for their end
/// (TIME_WAIT) must not be in the way, as they are not in rdma_cm's own port spaces; for that
/// SO_REUSEADDR is needed, in the second attempt.
int bind_alone_or_shared(TcpSocket& socket, const SocketAddress& address, bool shared) {
  int result = shared ? socket.set_reuse(true) : 0;
  result = result == 0 ? socket.bind(address) : result;
  if (result == -EADDRINUSE && !shared) {
    result = socket.set_reuse(true);
    result = result == 0 ? socket.bind(address) : result;
    static_cast<void>(socket.set_reuse(false));
  }
  return result;
}

/// Binds all, the later ones to the port of the first.
Result<BoundSockets, int> bind_all(TcpNetwork& network, const std::vector<SocketAddress>& places,
                                   bool shared) {
  BoundSockets bound;
  for (const SocketAddress& place : places) {
    const SocketAddress wanted = bound.port != 0 ? with_port(place, bound.port) : place;
    auto socket = network.socket(place.storage.ss_family);
    if (!socket) {
      return std::unexpected(-socket.error());
    }
    if (const int result = bind_alone_or_shared(**socket, wanted, shared); result < 0) {
      return std::unexpected(-result);
    }
    bound.port = port_of((*socket)->local());
    bound.sockets.push_back(std::move(*socket));
  }
  return bound;
}

}  // namespace

SocketAddress with_scope(const SocketAddress& address, const Gid& local) {
  return lacks_scope(address) ? socket_address(*address_of(*address.get()), port_of(address),
                                               interface_of(local, host_addresses()))
                              : address;
}

Result<BoundSockets, int> bind_sockets(TcpNetwork& network, const IwarpBindClaim& claim,
                                       std::span<const Gid> addresses) {
  const int family = claim.address.storage.ss_family;
  if (family != AF_INET && family != AF_INET6) {
    return std::unexpected(EAFNOSUPPORT);
  }
  const std::vector<SocketAddress> places = covered(claim, addresses);
  if (places.empty()) {
    return std::unexpected(EADDRNOTAVAIL);
  }
  const int attempts = port_of(claim.address) == 0 ? ephemeral_attempts_max : 1;
  Result<BoundSockets, int> bound = std::unexpected(EADDRINUSE);
  for (int i = 0; i < attempts && !bound && bound.error() == EADDRINUSE; ++i) {
    bound = bind_all(network, places, claim.reuse);
  }
  return bound;
}

}  // namespace verbena::ports
