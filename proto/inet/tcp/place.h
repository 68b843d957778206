// Where one end of a TCP connection is.
#pragma once

#include <compare>
#include <cstdint>

#include "proto/inet/ip_address.h"

namespace verbena::inet {

/// IPv4 addresses are mapped.
struct TcpPlace {
  Ipv6Address address;
  std::uint16_t port = 0;

  friend constexpr auto operator<=>(const TcpPlace&, const TcpPlace&) = default;
};

}  // namespace verbena::inet
