#include "ports/netlink.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ports/socket_address.h"
#include "ports/sys_net.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

namespace {

constexpr std::size_t answer_bytes_max = 4096;

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; }

/// A message in the making: header, a struct of the family, attributes.
template <class Body>
class Question {
 public:
  Question(std::uint16_t type, const Body& body) {
    header_.nlmsg_type = type;
    header_.nlmsg_flags = NLM_F_REQUEST;
    write_struct(MutableBytes(bytes_).subspan(sizeof(nlmsghdr)), body);
  }

  void add(std::uint16_t type, ByteView value) {
    const rtattr attribute{static_cast<unsigned short>(sizeof(rtattr) + value.size()), type};
    const MutableBytes room = MutableBytes(bytes_).subspan(used_);
    write_struct(room, attribute);
    copy_bytes(room.subspan(sizeof(rtattr)), value);
    used_ += aligned(sizeof(rtattr) + value.size());
  }

  [[nodiscard]] MutableBytes bytes() {
    header_.nlmsg_len = static_cast<std::uint32_t>(used_);
    write_struct(bytes_, header_);
    return MutableBytes(bytes_).first(used_);
  }

 private:
  nlmsghdr header_{};
  std::array<std::byte, 128> bytes_{};
  std::size_t used_ = sizeof(nlmsghdr) + aligned(sizeof(Body));
};

/// As attributes have it: 4 or 16 bytes.
ByteView address_bytes(const Gid& address) {
  const ByteView all = bytes_of(address);
  return roce::ipv4_from_gid(address) ? all.last(sizeof(inet::Ipv4Address)) : all;
}

std::uint8_t family_byte(const Gid& address) {
  return static_cast<std::uint8_t>(family_of(address));
}

}  // namespace

std::optional<ByteView> attribute(ByteView row, std::uint16_t type) {
  while (row.size() >= sizeof(rtattr)) {
    const auto header = read_struct<rtattr>(row);
    if (header.rta_len < sizeof(rtattr) || header.rta_len > row.size()) {
      return std::nullopt;
    }
    if (header.rta_type == type) {
      return row.first(header.rta_len).subspan(sizeof(rtattr));
    }
    row = row.subspan(std::min(aligned(header.rta_len), row.size()));
  }
  return std::nullopt;
}

Result<Netlink, int> Netlink::open() {
  auto socket = sys::route_socket();
  if (!socket) {
    return std::unexpected(socket.error());
  }
  return Netlink(std::move(*socket));
}

std::optional<ByteView> Netlink::ask(MutableBytes question, std::uint16_t answer_type,
                                     MutableBytes room) const {
  const long answer_bytes = sys::exchange(socket_.get(), question, room);
  if (answer_bytes < static_cast<long>(sizeof(nlmsghdr))) {
    return std::nullopt;
  }
  const ByteView answer = room.first(static_cast<std::size_t>(answer_bytes));
  const auto header = read_struct<nlmsghdr>(answer);
  if (header.nlmsg_type != answer_type || header.nlmsg_len > answer.size() ||
      header.nlmsg_len < sizeof(nlmsghdr)) {
    return std::nullopt;
  }
  return answer.first(header.nlmsg_len).subspan(sizeof(nlmsghdr));
}

std::optional<Gid> Netlink::next_hop(const Gid& destination, unsigned interface_index) const {
  const ByteView address = address_bytes(destination);
  rtmsg body{};
  body.rtm_family = family_byte(destination);
  body.rtm_dst_len = static_cast<unsigned char>(8 * address.size());
  Question question(RTM_GETROUTE, body);
  question.add(RTA_DST, address);
  question.add(RTA_OIF, bytes_of(interface_index));
  std::array<std::byte, answer_bytes_max> room{};
  const auto answer = ask(question.bytes(), RTM_NEWROUTE, room);
  if (!answer || answer->size() < sizeof(rtmsg)) {
    return std::nullopt;
  }
  if (const auto type = read_struct<rtmsg>(*answer).rtm_type; type != RTN_UNICAST) {
    return std::nullopt;
  }
  const auto gateway = attribute(answer->subspan(sizeof(rtmsg)), RTA_GATEWAY);
  if (!gateway) {
    return destination;
  }
  if (gateway->size() == sizeof(inet::Ipv4Address)) {
    return roce::gid_from_ipv4(read_struct<inet::Ipv4Address>(*gateway));
  }
  return gateway->size() == sizeof(Gid) ? std::optional(read_struct<Gid>(*gateway)) : std::nullopt;
}

std::optional<inet::MacAddress> Netlink::neighbour(const Gid& address,
                                                   unsigned interface_index) const {
  ndmsg body{};
  body.ndm_family = family_byte(address);
  body.ndm_ifindex = static_cast<int>(interface_index);
  Question question(RTM_GETNEIGH, body);
  question.add(NDA_DST, address_bytes(address));
  std::array<std::byte, answer_bytes_max> room{};
  const auto answer = ask(question.bytes(), RTM_NEWNEIGH, room);
  if (!answer || answer->size() < sizeof(ndmsg)) {
    return std::nullopt;
  }
  constexpr unsigned known =
      NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;
  const auto mac = attribute(answer->subspan(sizeof(ndmsg)), NDA_LLADDR);
  if ((read_struct<ndmsg>(*answer).ndm_state & known) == 0 || !mac ||
      mac->size() != sizeof(inet::MacAddress)) {
    return std::nullopt;
  }
  return read_struct<inet::MacAddress>(*mac);
}

}  // namespace verbena::ports
