#include "ports/socket_address.h"

#include <netinet/in.h>

#include <boost/endian/conversion.hpp>
#include <cstring>

#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

/// RFC 4007, 6: addresses that mean something on one link only.
bool needs_link(const Gid& address) {
  constexpr unsigned scope_mask = 0x0F;
  constexpr unsigned scope_link_local = 2;
  const auto ipv6 = roce::ipv6_from_gid(address);
  return ipv6.is_link_local() ||
         (ipv6.is_multicast() && (ipv6.bytes[1] & scope_mask) <= scope_link_local);
}

template <class Form>
SocketAddress stored(const Form& form) {
  SocketAddress address;
  std::memcpy(&address.storage, &form, sizeof(form));
  address.bytes = sizeof(form);
  return address;
}

template <class Form>
Form read_as(const sockaddr& from) {
  Form form{};
  std::memcpy(&form, &from, sizeof(form));
  return form;
}

}  // namespace

int family_of(const Gid& address) { return roce::ipv4_from_gid(address) ? AF_INET : AF_INET6; }

SocketAddress socket_address(const Gid& address, std::uint16_t port, unsigned interface_index) {
  if (const auto ipv4 = roce::ipv4_from_gid(address)) {
    sockaddr_in form{};
    form.sin_family = AF_INET;
    form.sin_port = boost::endian::native_to_big(port);
    std::memcpy(&form.sin_addr, ipv4->bytes.data(), ipv4->bytes.size());
    return stored(form);
  }
  sockaddr_in6 form{};
  form.sin6_family = AF_INET6;
  form.sin6_port = boost::endian::native_to_big(port);
  std::memcpy(&form.sin6_addr, address.bytes.data(), address.bytes.size());
  form.sin6_scope_id = needs_link(address) ? interface_index : 0;
  return stored(form);
}

SocketAddress with_port(const SocketAddress& address, std::uint16_t port) {
  // sin6_port lies where sin_port does.
  auto form = read_as<sockaddr_in>(*address.get());
  form.sin_port = boost::endian::native_to_big(port);
  SocketAddress result = address;
  std::memcpy(&result.storage, &form, sizeof(form));
  return result;
}

bool lacks_scope(const SocketAddress& address) {
  const auto gid = address_of(*address.get());
  return gid && address.storage.ss_family == AF_INET6 && needs_link(*gid) &&
         read_as<sockaddr_in6>(*address.get()).sin6_scope_id == 0;
}

std::optional<Gid> address_of(const sockaddr& from) {
  if (from.sa_family == AF_INET) {
    const auto form = read_as<sockaddr_in>(from);
    return roce::gid_from_ipv4(
        inet::Ipv4Address::from_value(boost::endian::big_to_native(form.sin_addr.s_addr)));
  }
  if (from.sa_family == AF_INET6) {
    Gid gid;
    const auto form = read_as<sockaddr_in6>(from);
    std::memcpy(gid.bytes.data(), &form.sin6_addr, gid.bytes.size());
    return gid;
  }
  return std::nullopt;
}

std::uint16_t port_of(const SocketAddress& from) {
  return boost::endian::big_to_native(read_as<sockaddr_in>(*from.get()).sin_port);
}

}  // namespace verbena::ports
