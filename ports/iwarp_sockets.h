// The sockets behind a port that a program binds: one for each address that the claim covers, all
// with the same number.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ports/iwarp_device.h"
#include "ports/tcp_socket.h"
#include "proto/gid.h"

namespace verbena::ports {

struct BoundSockets {
  /// At least one.
  std::vector<std::unique_ptr<TcpSocket>> sockets;
  std::uint16_t port = 0;
};

/// A link-local address without a scope means the link of the interface that has the address
/// `local` of the device; the same address where there is none.
[[nodiscard]] SocketAddress with_scope(const SocketAddress& address, const Gid& local);

/// `addresses` are the device's. The error is an errno value; see IwarpDevice::bind().
[[nodiscard]] Result<BoundSockets, int> bind_sockets(TcpNetwork& network,
                                                     const IwarpBindClaim& claim,
                                                     std::span<const Gid> addresses);

}  // namespace verbena::ports
