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
  const auto ipv4 = roce::ipv4_from_gid(gid);
  return ipv4 ? mac_of(*ipv4) : inet::MacAddress{};
}

bool address_is_valid(const NicConfig& config, const AddressVector& av) {
  return av.has_grh && av.port == 1 && av.sgid_index < config.gids.size() &&
         config.gids[av.sgid_index].type == GidEntry::Type::roce_v2 &&
         roce::ipv4_from_gid(config.gids[av.sgid_index].gid).has_value() &&
         roce::ipv4_from_gid(av.dgid).has_value();
}

Way make_way(const NicConfig& config, const AddressVector& av, std::uint16_t source_port_default) {
  // A hop limit of 0 is what programs leave that don't care; 64 is the usual default (RFC 1700).
  constexpr std::uint8_t hop_limit_default = 64;
  const Gid& source = config.gids[av.sgid_index].gid;
  const roce::Path path{.version = roce::Version::v2_ipv4,
                        .destination_mac = mac_of(av.dgid),
                        .source_mac = mac_of(source),
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
                    .hop_limit = path.hop_limit}};
}

}  // namespace verbena::nic
