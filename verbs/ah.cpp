// Address handles: where datagrams go, and how to answer one that came.

#include "verbs/ah.h"

#include <algorithm>
#include <boost/endian/conversion.hpp>
#include <cstring>
#include <optional>

#include "base/bytes.h"
#include "ports/log.h"
#include "proto/inet/headers.h"
#include "proto/roce/gid.h"
#include "verbs/errors.h"
#include "verbs/pd.h"
#include "verbs/reach.h"
#include "verbs/real_verbs.h"

namespace verbena::verbs {

void AddressHandleObject::release() {
  owner().engine().with_nic([&](nic::Nic& nic, Time) { nic.destroy_ah(*nic_ah); });
  nic_ah = nullptr;
}

nic::AddressVector address_vector_from(const ibv_ah_attr& attr) {
  nic::AddressVector av;
  std::memcpy(av.dgid.bytes.data(), attr.grh.dgid.raw, av.dgid.bytes.size());
  av.flow_label = attr.grh.flow_label;
  av.sgid_index = attr.grh.sgid_index;
  av.hop_limit = attr.grh.hop_limit;
  av.traffic_class = attr.grh.traffic_class;
  av.sl = attr.sl;
  av.port = attr.port_num;
  av.has_grh = attr.is_global != 0;
  return av;
}

ibv_ah_attr address_vector_to(const nic::AddressVector& av) {
  ibv_ah_attr attr{};
  std::memcpy(attr.grh.dgid.raw, av.dgid.bytes.data(), av.dgid.bytes.size());
  attr.grh.flow_label = av.flow_label;
  attr.grh.sgid_index = av.sgid_index;
  attr.grh.hop_limit = av.hop_limit;
  attr.grh.traffic_class = av.traffic_class;
  attr.sl = av.sl;
  attr.port_num = av.port;
  attr.is_global = av.has_grh ? 1 : 0;
  return attr;
}

namespace {

Created<ibv_ah> create_ah(ibv_pd* base_pd, const ibv_ah_attr& attr) {
  const auto& pd = ProtectionDomain::of(base_pd);
  Context& context = pd.owner();
  if (context.is_dead()) {
    return failed(EIO);
  }
  const nic::AddressVector av = address_vector_from(attr);
  auto ah = std::make_unique<AddressHandleObject>();
  const auto created =
      context.engine().with_nic([&](nic::Nic& nic, Time) { return nic.create_ah(*pd.nic_pd, av); });
  if (!created) {
    return failed(errno_of(created));
  }
  ah->context = &context.context;
  ah->pd = base_pd;
  ah->nic_ah = *created;
  context.track(context.ahs, *ah);
  if (const auto reason = why_unreachable(context.opened.config, av)) {
    // It was valid as far as the device goes, but no datagram would arrive.
    ports::report(context.opened.config.name + ": " + *reason);
    context.untrack(context.ahs, *ah);
    ah->release();
    return failed(ENETUNREACH);
  }
  return ah.release();
}

/// What the first 40 bytes of a received datagram tell (ud_responder.h).
struct ReceivedHeader {
  Gid source;
  Gid destination;
  nic::GidEntry::Type type = nic::GidEntry::Type::roce_v2;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;
};

/// The bytes in front of an IPv4 header are anything, also something that looks like an IPv6
/// header. So an IPv4 header, which has a checksum, is looked for first, as rdma-core does it.
ReceivedHeader read_header(const ibv_grh& grh) {
  const ByteView area = bytes_of(grh);
  const auto ipv4 = read_struct<inet::Ipv4Header>(area.last(inet::ipv4_header_bytes));
  if (ipv4.version_and_length == inet::Ipv4Header::version_and_length_plain &&
      inet::ipv4_checksum(ipv4) == ipv4.checksum.value()) {
    return {.source = roce::gid_from_ipv4(ipv4.source),
            .destination = roce::gid_from_ipv4(ipv4.destination),
            .traffic_class = ipv4.type_of_service};
  }
  const auto ipv6 = read_struct<inet::Ipv6Header>(area);
  return {.source = roce::gid_from_ipv6(ipv6.source),
          .destination = roce::gid_from_ipv6(ipv6.destination),
          .type = ipv6.next_header == inet::ip_protocol_udp ? nic::GidEntry::Type::roce_v2
                                                            : nic::GidEntry::Type::roce_v1,
          .traffic_class = ipv6.traffic_class(),
          .flow_label = ipv6.flow_label()};
}

/// The row of our GID table that a datagram came to. One to a multicast group came to none of them:
/// then the first of the same type.
std::optional<std::uint8_t> row_of(const nic::NicConfig& config, const ReceivedHeader& header) {
  const auto is_wanted = [&](const nic::GidEntry& row) {
    const bool same_kind =
        roce::ipv4_from_gid(row.gid).has_value() == roce::ipv4_from_gid(header.source).has_value();
    return row.type == header.type &&
           (row.gid == header.destination || (roce::is_multicast(header.destination) && same_kind));
  };
  const auto row = std::ranges::find_if(config.gids, is_wanted);
  if (row == config.gids.end()) {
    return std::nullopt;
  }
  return static_cast<std::uint8_t>(row - config.gids.begin());
}

/// An answer's hop limit doesn't depend on how far the question has come.
constexpr std::uint8_t answer_hop_limit = 0xFF;

Errno init_ah_from_wc(Context& context, std::uint8_t port, const ibv_wc& wc, const ibv_grh* grh,
                      ibv_ah_attr& attr) {
  if ((wc.wc_flags & IBV_WC_GRH) == 0 || grh == nullptr) {
    return EINVAL;
  }
  const ReceivedHeader header = read_header(*grh);
  const auto row = row_of(context.engine().peek().config(), header);
  if (!row) {
    return ENOENT;
  }
  attr = address_vector_to({.dgid = header.source,
                            .flow_label = header.flow_label,
                            .sgid_index = *row,
                            .hop_limit = answer_hop_limit,
                            .traffic_class = header.traffic_class,
                            .port = port,
                            .has_grh = true});
  attr.dlid = wc.slid;
  attr.src_path_bits = wc.dlid_path_bits;
  return 0;
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  if (is_real(pd)) {
    return real_verbs().ibv_create_ah(pd, attr);
  }
  return create_or_null([&] { return verbs::create_ah(pd, *attr); });
}

// Returns 0, or -1 and errno.
VERBENA_EXPORT int ibv_init_ah_from_wc(ibv_context* base, std::uint8_t port, ibv_wc* wc,
                                       ibv_grh* grh, ibv_ah_attr* attr) {
  if (is_real(base)) {
    return real_verbs().ibv_init_ah_from_wc(base, port, wc, grh, attr);
  }
  const Errno error = verbs::init_ah_from_wc(Context::of(base), port, *wc, grh, *attr);
  return error == 0 ? 0 : minus_one(error);
}

VERBENA_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh,
                                             std::uint8_t port) {
  if (is_real(pd)) {
    return real_verbs().ibv_create_ah_from_wc(pd, wc, grh, port);
  }
  return create_or_null([&]() -> Created<ibv_ah> {
    ibv_ah_attr attr{};
    Context& context = ProtectionDomain::of(pd).owner();
    if (const Errno error = verbs::init_ah_from_wc(context, port, *wc, grh, attr); error != 0) {
      return failed(error);
    }
    return verbs::create_ah(pd, attr);
  });
}

VERBENA_EXPORT int ibv_destroy_ah(ibv_ah* base) {
  if (is_real(base)) {
    return real_verbs().ibv_destroy_ah(base);
  }
  auto& ah = AddressHandleObject::of(base);
  if (ah.nic_ah != nullptr && !ah.owner().is_dead()) {
    ah.owner().untrack(ah.owner().ahs, ah);
    ah.release();
  }
  delete &ah;
  return 0;
}

// There is no ARP in a fabric or behind a UDP socket: Ethernet addresses follow from the GIDs.
VERBENA_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr,
                                               std::uint8_t* mac, std::uint16_t* vlan) {
  if (is_real(context)) {
    return real_verbs().ibv_resolve_eth_l2_from_gid(context, attr, mac, vlan);
  }
  constexpr std::uint16_t no_vlan = 0xFFFF;
  const inet::MacAddress resolved = nic::mac_of(address_vector_from(*attr).dgid);
  std::ranges::copy(resolved.bytes, mac);
  if (vlan != nullptr) {
    *vlan = no_vlan;
  }
  return 0;
}
