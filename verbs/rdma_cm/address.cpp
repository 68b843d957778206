#include "verbs/rdma_cm/address.h"

#include <arpa/inet.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "base/bytes.h"
#include "proto/roce/gid.h"

namespace verbena::rdma_cm {

namespace {

const sockaddr_in& v4(const sockaddr& address) {
  return reinterpret_cast<const sockaddr_in&>(address);
}
const sockaddr_in6& v6(const sockaddr& address) {
  return reinterpret_cast<const sockaddr_in6&>(address);
}

}  // namespace

bool is_known_family(const sockaddr& address) {
  return address.sa_family == AF_INET || address.sa_family == AF_INET6;
}

socklen_t length_of(const sockaddr& address) {
  return address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

ibv_gid abi_gid(const Gid& gid) {
  ibv_gid abi{};
  std::memcpy(abi.raw, gid.bytes.data(), gid.bytes.size());
  return abi;
}

Gid gid_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return roce::gid_from_ipv4(inet::Ipv4Address::from_value(ntohl(v4(address).sin_addr.s_addr)));
  }
  return read_struct<Gid>(bytes_of(v6(address).sin6_addr));
}

std::uint16_t port_of(const sockaddr& address) {
  return ntohs(address.sa_family == AF_INET ? v4(address).sin_port : v6(address).sin6_port);
}

void set_port(sockaddr& address, std::uint16_t port) {
  if (address.sa_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  }
}

bool is_any(const sockaddr& address) {
  return address.sa_family == AF_INET ? v4(address).sin_addr.s_addr == htonl(INADDR_ANY)
                                      : IN6_IS_ADDR_UNSPECIFIED(&v6(address).sin6_addr);
}

bool is_loopback(const sockaddr& address) { return roce::is_loopback(gid_of(address)); }

bool is_multicast(const sockaddr& address) { return roce::is_multicast(gid_of(address)); }

void write_address(sockaddr_storage& to, const Gid& gid, bool is_v4, std::uint16_t port) {
  to = {};
  const auto address = roce::ipv4_from_gid(gid);
  if (is_v4 && address) {
    auto& sin = reinterpret_cast<sockaddr_in&>(to);
    sin.sin_family = AF_INET;
    sin.sin_addr.s_addr = htonl(address->to_value());
  } else {
    auto& sin6 = reinterpret_cast<sockaddr_in6&>(to);
    sin6.sin6_family = AF_INET6;
    std::memcpy(&sin6.sin6_addr, gid.bytes.data(), gid.bytes.size());
  }
  set_port(reinterpret_cast<sockaddr&>(to), port);
}

void copy_address(sockaddr_storage& to, const sockaddr& from) {
  to = {};
  std::memcpy(&to, &from, length_of(from));
}

std::string text_of(const sockaddr& address) { return roce::to_address_text(gid_of(address)); }

std::optional<Gid> source_for(const sockaddr& destination) {
  // A connected datagram socket sends nothing, but has a source address. The calls go to the kernel
  // directly: librspreload puts its own socket() and connect() in front of libc's.
  const long fd = ::syscall(SYS_socket, destination.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return std::nullopt;
  }
  sockaddr_storage to{};
  copy_address(to, destination);
  set_port(reinterpret_cast<sockaddr&>(to), 9);  // Any port will do; this one discards.
  sockaddr_storage source{};
  socklen_t length = sizeof source;
  const bool known = ::syscall(SYS_connect, fd, &to, length_of(destination)) == 0 &&
                     ::syscall(SYS_getsockname, fd, &source, &length) == 0;
  ::syscall(SYS_close, fd);
  return known ? std::optional(gid_of(reinterpret_cast<const sockaddr&>(source))) : std::nullopt;
}

}  // namespace verbena::rdma_cm
