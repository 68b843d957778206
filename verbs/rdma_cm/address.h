// Socket addresses, as programs give them, and GIDs, as messages carry them.
#pragma once

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "proto/gid.h"

namespace verbena::rdma_cm {

/// AF_INET or AF_INET6: the families that we know.
[[nodiscard]] bool is_known_family(const sockaddr& address);
[[nodiscard]] socklen_t length_of(const sockaddr& address);
[[nodiscard]] ibv_gid abi_gid(const Gid& gid);
/// IPv4 addresses come as mapped GIDs. The family is known.
[[nodiscard]] Gid gid_of(const sockaddr& address);
/// In host order.
[[nodiscard]] std::uint16_t port_of(const sockaddr& address);
void set_port(sockaddr& address, std::uint16_t port);
[[nodiscard]] bool is_any(const sockaddr& address);
[[nodiscard]] bool is_loopback(const sockaddr& address);
[[nodiscard]] bool is_multicast(const sockaddr& address);

/// Writes an address of the family that `is_v4` tells.
void write_address(sockaddr_storage& to, const Gid& gid, bool is_v4, std::uint16_t port);
void copy_address(sockaddr_storage& to, const sockaddr& from);

/// "127.0.0.1", "fd09::1".
[[nodiscard]] std::string text_of(const sockaddr& address);

/// The address that this host would send from to reach `destination`, as its kernel has it.
[[nodiscard]] std::optional<Gid> source_for(const sockaddr& destination);

}  // namespace verbena::rdma_cm
