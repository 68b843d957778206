// IP addresses as the socket calls take and give them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>

#include "proto/gid.h"

namespace verbena::ports {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(sockaddr_storage);

  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// AF_INET for a mapped address, else AF_INET6.
[[nodiscard]] int family_of(const Gid& address);

/// `interface_index` is that of the link on which a link-local address or group is meant; all
/// others go without.
[[nodiscard]] SocketAddress socket_address(const Gid& address, std::uint16_t port,
                                           unsigned interface_index);

/// The same with another port; of an IPv4 or IPv6 address.
[[nodiscard]] SocketAddress with_port(const SocketAddress& address, std::uint16_t port);

/// An address that means something on one link only, and doesn't say on which.
[[nodiscard]] bool lacks_scope(const SocketAddress& address);

/// IPv4 comes as a mapped address; nullopt for any other family than IPv4 and IPv6.
[[nodiscard]] std::optional<Gid> address_of(const sockaddr& from);
/// Of an IPv4 or IPv6 address.
[[nodiscard]] std::uint16_t port_of(const SocketAddress& from);

}  // namespace verbena::ports
