#include "nic_model/address.h"

#include "proto/roce/gid.h"
#include "proto/roce/sport.h"

namespace verbena::nic {

inet::MacAddress mac_of(inet::Ipv4Address address) {
  // 02 in the first byte: locally administered (IEEE 802-2014, 8.4).
  return {{0x02, 0x00, address.bytes[0], address.bytes[1], address.bytes[2], address.bytes[3]}};
}

inet::MacAddress mac_of(const Gid& gid) {
  if (const auto group = roce::multicast_mac(gid)) {
    return *group;
  }
  if (const auto ipv4 = roce::ipv4_from_gid(gid)) {
    return mac_of(*ipv4);
  }
  if (const auto mac = roce::mac_from_link_local(gid)) {
    return *mac;
  }
  // 01 in the second byte: not one that stands for an IPv4 address.
  const auto& g = gid.bytes;
  return {{0x02, 0x01, g[12], g[13], g[14], g[15]}};
}

namespace {

bool is_ipv4(const Gid& gid) { return roce::ipv4_from_gid(gid).has_value(); }

roce::Version version_of(const GidEntry& source, const Gid& destination) {
  if (source.type == GidEntry::Type::roce_v1) {
    return roce::Version::v1;
  }
  return is_ipv4(destination) ? roce::Version::v2_ipv4 : roce::Version::v2_ipv6;
}

}  // namespace

bool address_is_valid(const NicConfig& config, const AddressVector& av) {
  if (!av.has_grh || av.port != 1 || av.sgid_index >= config.gids.size() || av.dgid == Gid{}) {
    return false;
  }
  const GidEntry& source = config.gids[av.sgid_index];
  if (source.type == GidEntry::Type::roce_v1 || is_ipv4(source.gid) == is_ipv4(av.dgid)) {
    return true;
  }
  // Programs use groups of the form ff0e::/16 with IPv4 GIDs, too. The other way round, an IPv4
  // header would need an IPv4 source.
  return roce::is_multicast(av.dgid) && is_ipv4(source.gid);
}

Way make_way(const NicConfig& config, const AddressVector& av, std::uint16_t source_port_default) {
  // A hop limit of 0 is what programs leave that don't care; 64 is the usual default (RFC 1700).
  constexpr std::uint8_t hop_limit_default = 64;
  const GidEntry& row = config.gids[av.sgid_index];
  const Gid& source = row.gid;
  std::optional<std::uint16_t> vlan_control;
  if (row.vlan) {
    // IEEE 802.1Q, 9.6: eight priorities, and as many service levels that mean something.
    vlan_control = static_cast<std::uint16_t>((av.sl & 7U) << 13 | *row.vlan);
  }
  const roce::Path path{.version = version_of(row, av.dgid),
                        .destination_mac = mac_of(av.dgid),
                        .source_mac = mac_of(source),
                        .vlan_control = vlan_control,
                        .source = source,
                        .destination = av.dgid,
                        .traffic_class = av.traffic_class,
                        .hop_limit = av.hop_limit == 0 ? hop_limit_default : av.hop_limit,
                        .flow_label = av.flow_label,
                        .identification = 0,
                        .udp_source_port = av.flow_label != 0 ? roce::udp_source_port(av.flow_label)
                                                              : source_port_default};
  return {.encapsulation = roce::Encapsulation(path),
          .route = {.source = source,
                    .destination = av.dgid,
                    .traffic_class = path.traffic_class,
                    .hop_limit = path.hop_limit,
                    .flow_label = path.flow_label}};
}

}  // namespace verbena::nic
