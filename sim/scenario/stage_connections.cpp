// How a scenario's connections come to be, and what becomes of them.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "nic_model/qp_state_table.h"
#include "proto/roce/gid.h"
#include "sim/scenario/stage.h"

namespace verbena::sim {
namespace {

/// TCP ports: where the second host of a connection listens, one port for each (7471 is what
/// rdma-core's examples take), and the dynamic ones of the first (RFC 6335, 6).
constexpr std::uint16_t listening_port_first = 7471;
constexpr std::uint16_t dynamic_port_first = 49'152;
constexpr std::uint16_t dynamic_port_count = 16'384;

/// What an FPDU has besides the payload of a WRITE: its length, DDP's header, the CRC. A segment
/// that has room for it and the path MTU is cut where RoCE cuts.
constexpr std::uint16_t write_overhead_bytes = 2 + 14 + 4;

/// The row of a host's GID table that has its alternate address.
constexpr std::uint8_t alternate_row = 1;

nic::QpType type_of(ib::Service service, std::size_t side) {
  switch (service) {
    case ib::Service::uc:
      return nic::QpType::uc;
    case ib::Service::ud:
      return nic::QpType::ud;
    case ib::Service::xrc:
      return side == 0 ? nic::QpType::xrc_initiator : nic::QpType::xrc_target;
    default:
      return nic::QpType::rc;
  }
}

}  // namespace

nic::AddressVector Stage::address_of(const End& end) const {
  nic::AddressVector av;
  av.dgid = hosts_[end.host].spec->gid;
  av.has_grh = true;
  av.hop_limit = 64;
  return av;
}

void Stage::modify(const End& end, const End& peer, const ConnectionSpec& spec,
                   nic::QpState state) {
  nic::QpAttr attr;
  attr.state = state;
  attr.access_flags = spec.access;
  attr.qkey = spec.qkey;
  attr.av = address_of(peer);
  attr.path_mtu = spec.mtu;
  attr.dest_qpn = peer.qpn;
  attr.rq_psn = peer.first_psn;
  attr.max_dest_rd_atomic = spec.rd_atomic;
  attr.min_rnr_timer = spec.min_rnr_timer;
  attr.timeout = spec.timeout;
  attr.retry_cnt = spec.retry_cnt;
  attr.rnr_retry = spec.rnr_retry;
  attr.sq_psn = end.first_psn;
  attr.max_rd_atomic = spec.rd_atomic;
  const std::uint32_t mask = nic::bring_up_mask(nic::type_of(*end.qp), state);
  Node& node = *hosts_[end.host].node;
  VERBENA_CHECK(node.nic().modify_qp(simulation_.now(), *end.qp, attr, mask).has_value());
}

void Stage::create_qp(const ConnectionSpec& spec, std::size_t side, End& end) {
  Node& node = *hosts_[end.host].node;
  nic::QpInitAttr init;
  init.type = type_of(spec.service, side);
  init.send_cq = init.recv_cq = &node.cq();
  if (spec.srqs[side]) {
    init.srq = shared_queues_[*spec.srqs[side]].srq;
  }
  if (init.type == nic::QpType::xrc_target) {
    init.xrcd = xrcds_[end.host];
    if (init.xrcd == nullptr) {
      fail(spec.place, "The receiving end of an XRC connection needs a queue with xrc = true.");
    }
  }
  init.caps = {.send_wr_max = spec.send_wr_max,
               .recv_wr_max = spec.recv_wr_max,
               .send_sge_max = sges_max,
               .recv_sge_max = sges_max,
               .inline_bytes_max = 256};
  const auto qp = node.nic().create_qp(node.pd(), init);
  VERBENA_CHECK(qp.has_value());
  end.qp = *qp;
  end.qpn = nic::qpn_of(**qp);
}

void Stage::close(Connection& connection) {
  for (End& end : connection.ends) {
    if (end.qp != nullptr) {
      nic::Nic& nic = hosts_[end.host].node->nic();
      if (scenario_.technology == nic::Technology::iwarp) {
        hosts_[end.host].node->tcp().forget(*end.qp);
      }
      VERBENA_CHECK(nic.destroy_qp(*end.qp).has_value());
      end.qp = nullptr;
      if (end.to_peer != nullptr) {
        nic.destroy_ah(*std::exchange(end.to_peer, nullptr));
      }
    }
  }
  drive(connection);
}

/// Both hosts say what they have to say, if the story has begun.
void Stage::drive(const Connection& connection) {
  for (const End& end : connection.ends) {
    if (has_begun_ && hosts_[end.host].node != nullptr) {
      hosts_[end.host].node->drive();
    }
  }
}

void Stage::make_ready(Connection& connection, std::size_t side, Qpn peer_qpn, Psn own_psn) {
  End own = connection.ends[side];
  own.first_psn = own_psn;
  End peer = connection.ends[1 - side];
  peer.qpn = peer_qpn;
  for (const nic::QpState state : {nic::QpState::rtr, nic::QpState::rts}) {
    modify(own, peer, *connection.spec, state);
  }
}

void Stage::make_fail(const End& end) {
  nic::QpAttr attr;
  attr.state = nic::QpState::err;
  nic::Nic& nic = hosts_[end.host].node->nic();
  // From any state.
  VERBENA_CHECK(
      nic.modify_qp(simulation_.now(), *end.qp, attr, nic::qp_attr_mask::state).has_value());
}

void Stage::prepare(Connection& connection) {
  for (std::size_t side = 0; side < 2; ++side) {
    create_qp(*connection.spec, side, connection.ends[side]);
    modify(connection.ends[side], connection.ends[1 - side], *connection.spec, nic::QpState::init);
  }
}

void Stage::connect(Connection& connection) {
  for (std::size_t side = 0; side < 2; ++side) {
    End& end = connection.ends[side];
    if (end.qp == nullptr && hosts_[end.host].node != nullptr) {
      create_qp(*connection.spec, side, end);
    }
  }
  if (scenario_.technology == nic::Technology::iwarp) {
    return connect_streams(connection);
  }
  for (const nic::QpState state :
       {nic::QpState::reset, nic::QpState::init, nic::QpState::rtr, nic::QpState::rts}) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (connection.ends[i].qp != nullptr) {
        modify(connection.ends[i], connection.ends[1 - i], *connection.spec, state);
      }
    }
  }
  if (connection.spec->service == ib::Service::ud) {
    for (std::size_t i = 0; i < 2; ++i) {
      address(connection.ends[i], connection.ends[1 - i]);
    }
  }
}

/// The first host connects, the second one listens: MPA over TCP.
void Stage::connect_streams(Connection& connection) {
  namespace m = nic::qp_attr_mask;
  const ConnectionSpec& spec = *connection.spec;
  auto& [client, server] = connection.ends;
  const auto index = static_cast<std::uint16_t>(&connection - connections_.data());
  server.port = static_cast<std::uint16_t>(listening_port_first + index);
  client.port =
      static_cast<std::uint16_t>(dynamic_port_first + ports_given_++ % dynamic_port_count);
  for (std::size_t i = 2; i-- > 0;) {
    End& end = connection.ends[i];
    Node& node = *hosts_[end.host].node;
    nic::QpAttr to_init;
    to_init.state = nic::QpState::init;
    to_init.access_flags = spec.access;
    node.tcp().forget(*end.qp);
    VERBENA_CHECK(node.nic().modify_qp(simulation_.now(), *end.qp, {}, m::state).has_value() &&
                  node.nic()
                      .modify_qp(simulation_.now(), *end.qp, to_init, m::state | m::access_flags)
                      .has_value());
    TcpHost::Endpoint endpoint;
    endpoint.local_port = end.port;
    endpoint.initial_sequence = inet::TcpSeq(end.first_psn.value());
    endpoint.mss = static_cast<std::uint16_t>(nic::mtu_bytes(spec.mtu) + write_overhead_bytes);
    endpoint.depths = {.ird = std::min<std::uint16_t>(spec.rd_atomic, node.nic().ird_max()),
                       .ord = spec.rd_atomic};
    // So that either end may send first, as on InfiniBand (RFC 6581, 4).
    endpoint.mpa.peer_to_peer = true;
    if (&end == &server) {
      node.tcp().listen(*end.qp, endpoint);
    } else {
      endpoint.peer = *roce::ipv4_from_gid(hosts_[server.host].spec->gid);
      endpoint.peer_port = server.port;
      node.tcp().connect(*end.qp, endpoint);
    }
  }
  drive(connection);
}

void Stage::begin() {
  has_begun_ = true;
  if (scenario_.technology == nic::Technology::iwarp) {
    for (const Connection& connection : connections_) {
      drive(connection);
    }
  }
}

bool Stage::is_settled() const {
  return scenario_.technology != nic::Technology::iwarp ||
         std::ranges::none_of(connections_, [&](const Connection& connection) {
           // The server's part is done before the client's.
           const End& client = connection.ends[0];
           return client.qp != nullptr && hosts_[client.host].node->tcp().is_connecting(*client.qp);
         });
}

void Stage::address(End& end, const End& peer) {
  if (end.qp != nullptr && end.to_peer == nullptr) {
    Node& node = *hosts_[end.host].node;
    const auto handle = node.nic().create_ah(node.pd(), address_of(peer));
    VERBENA_CHECK(handle.has_value());
    end.to_peer = *handle;
  }
}

void Stage::load_alternate_path(Connection& connection, std::size_t host, Place place) {
  const End& end = end_of(connection, host);
  const HostSpec& peer = *hosts_[peer_of(end).host].spec;
  if (end.qp == nullptr || !hosts_[host].spec->alternate || !peer.alternate) {
    fail(place, "A second way needs a queue pair, and an alternate address of both hosts.");
  }
  nic::QpAttr attr;
  attr.alt_av = address_of(peer_of(end));
  attr.alt_av.dgid = *peer.alternate;
  attr.alt_av.sgid_index = alternate_row;
  attr.alt_port = 1;
  attr.alt_timeout = connection.spec->timeout;
  Node& node = *hosts_[host].node;
  if (!node.nic().modify_qp(simulation_.now(), *end.qp, attr, nic::qp_attr_mask::alt_path)) {
    fail(place, "The queue pair's state doesn't permit to load a second way.");
  }
}

}  // namespace verbena::sim
