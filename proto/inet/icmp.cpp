#include "proto/inet/icmp.h"

#include <algorithm>

namespace verbena::inet {

namespace {

/// The address that an option of this type tells. nullopt if there is none; `valid` becomes false
/// if the options make no sense.
std::optional<MacAddress> find_link_layer_option(ByteView options, std::uint8_t type, bool& valid) {
  constexpr std::size_t word_bytes = 8;
  std::optional<MacAddress> found;
  while (!options.empty()) {
    const std::size_t words = options.size() < 2 ? 0 : std::to_integer<std::size_t>(options[1]);
    if (words == 0 || words * word_bytes > options.size()) {
      valid = false;
      return std::nullopt;
    }
    const auto option = read_struct<LinkLayerOption>(options);
    if (option.type == type && words == 1 && !found) {
      found = option.mac;
    }
    options = options.subspan(words * word_bytes);
  }
  valid = !found || !found->is_group();
  return found;
}

}  // namespace

std::optional<NeighbourNotice> parse_neighbour_message(const Ipv6Header& header, ByteView message) {
  if (message.size() < neighbour_message_bytes || header.hop_limit != neighbour_hop_limit) {
    return std::nullopt;
  }
  const auto fixed = read_struct<NeighbourMessage>(message);
  NeighbourNotice notice{.target = fixed.target};
  notice.is_solicitation = fixed.header.type == icmpv6_type::neighbour_solicitation;
  if (!notice.is_solicitation && fixed.header.type != icmpv6_type::neighbour_advertisement) {
    return std::nullopt;
  }
  if (fixed.header.code != 0 || fixed.target.is_multicast()) {
    return std::nullopt;
  }
  bool valid = true;
  notice.mac = find_link_layer_option(
      message.subspan(neighbour_message_bytes),
      notice.is_solicitation ? LinkLayerOption::source : LinkLayerOption::target, valid);
  if (notice.is_solicitation) {
    notice.is_probe = header.source == Ipv6Address{};
    valid = valid && !(notice.is_probe && notice.mac);
  } else {
    notice.is_solicited = (fixed.flags.value() & NeighbourMessage::flag_solicited) != 0;
    valid = valid && !(notice.is_solicited && header.destination.is_multicast());
  }
  return valid ? std::optional(notice) : std::nullopt;
}

Ipv6Address solicited_node_group(const Ipv6Address& address) {
  // ff02::1:ff00:0/104, and the last 24 bits of the address.
  Ipv6Address group{{0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0xFF}};
  std::copy(address.bytes.end() - 3, address.bytes.end(), group.bytes.end() - 3);
  return group;
}

MacAddress mac_of_group(const Ipv6Address& group) {
  MacAddress mac{{0x33, 0x33}};
  std::copy(group.bytes.end() - 4, group.bytes.end(), mac.bytes.begin() + 2);
  return mac;
}

Ipv6Address all_nodes_group() {
  return {{0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01}};
}

}  // namespace verbena::inet
