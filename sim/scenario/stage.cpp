#include "sim/scenario/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/near_miss.h"
#include "proto/roce/gid.h"

namespace verbena::sim {
namespace {

/// QPs of the hosts begin at 0x11, 0x21, 0x31, ...: a QPN tells its host at a glance.
constexpr std::uint32_t qpn_first = 0x11;
constexpr std::uint32_t qpn_step = 0x10;
constexpr std::uint32_t qpn_count = 4'096;

/// TCP ports: where the second host of a connection listens, one port for each (7471 is what
/// rdma-core's examples take), and the dynamic ones of the first (RFC 6335, 6).
constexpr std::uint16_t listening_port_first = 7471;
constexpr std::uint16_t dynamic_port_first = 49'152;
constexpr std::uint16_t dynamic_port_count = 16'384;

/// What an FPDU has besides the payload of a WRITE: its length, DDP's header, the CRC. A segment
/// that has room for it and the path MTU is cut where RoCE cuts.
constexpr std::uint16_t write_overhead_bytes = 2 + 14 + 4;

/// Pieces of memory in a request.
constexpr std::uint32_t sges_max = 8;

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

/// Of things that have a name.
template <class Things>
auto& named(Things& things, const Word& name, std::string_view what) {
  std::vector<std::string_view> known;
  for (auto& thing : things) {
    if (thing.spec->name == name.text) {
      return thing;
    }
    known.push_back(thing.spec->name);
  }
  fail(name,
       fmt::format("No {} is named '{}'.{}", what, name.text, did_you_mean(name.text, known)));
}

/// What a transition into `state` has to tell (IBTA vol 1, 11.2.5.2, the table of attributes).
std::uint32_t attributes_wanted(nic::QpType type, nic::QpState state) {
  namespace m = nic::qp_attr_mask;
  const bool is_ud = type == nic::QpType::ud;
  const bool requests = type == nic::QpType::rc || type == nic::QpType::xrc_initiator;
  const bool responds = type == nic::QpType::rc || type == nic::QpType::xrc_target;
  switch (state) {
    case nic::QpState::init:
      return m::pkey_index | m::port | (is_ud ? m::qkey : m::access_flags);
    case nic::QpState::rtr:
      return (is_ud ? 0 : m::av | m::path_mtu | m::dest_qpn | m::rq_psn) |
             (responds ? m::max_dest_rd_atomic | m::min_rnr_timer : 0);
    case nic::QpState::rts:
      return m::sq_psn | (requests || responds ? m::timeout : 0) |
             (requests ? m::retry_cnt | m::rnr_retry | m::max_qp_rd_atomic : 0);
    default:
      return 0;
  }
}

}  // namespace

Stage::Stage(const Scenario& scenario, std::uint64_t seed)
    : scenario_(scenario), simulation_(seed) {
  build_hosts();
  build_links();
  build_memory();
  build_shared_queues();
  build_windows();
  build_connections();
  simulation_.faults().add(scenario.faults);
}

void Stage::build_hosts() {
  for (std::size_t i = 0; i < scenario_.hosts.size(); ++i) {
    const HostSpec& spec = scenario_.hosts[i];
    Host host;
    host.spec = &spec;
    if (spec.has_nic) {
      NodeConfig config;
      config.name = spec.name;
      config.gid = spec.gid;
      config.alternate_gid = spec.alternate;
      config.encapsulation = scenario_.encapsulation;
      config.technology = scenario_.technology;
      config.first_qpn = Qpn{qpn_first + qpn_step * static_cast<std::uint32_t>(i)};
      config.qpn_count = qpn_count;
      config.arena_bytes = 8;
      for (const MemorySpec& memory : scenario_.memories) {
        if (memory.host == i) {
          config.arena_bytes = std::max(config.arena_bytes, memory.offset + memory.bytes);
        }
      }
      host.node = &simulation_.add_node(config);
    } else {
      host.peer = &simulation_.add_raw_peer(spec.name, spec.gid, scenario_.encapsulation);
    }
    hosts_.push_back(host);
  }
}

void Stage::build_links() {
  const auto link_to = [&](Host& host, auto& other) {
    return host.node != nullptr ? simulation_.connect(*host.node, other, scenario_.link)
                                : simulation_.connect(*host.peer, other, scenario_.link);
  };
  if (scenario_.switch_latency) {
    Switch& hub = simulation_.add_switch("switch", *scenario_.switch_latency);
    for (Host& host : hosts_) {
      host.link = link_to(host, hub);
    }
    return;
  }
  Host& other = hosts_[1];
  const Link link =
      other.node != nullptr ? link_to(hosts_[0], *other.node) : link_to(hosts_[0], *other.peer);
  hosts_[0].link = link;
  other.link = link;
}

void Stage::build_memory() {
  for (const MemorySpec& spec : scenario_.memories) {
    Region region;
    region.spec = &spec;
    Node* const node = hosts_[spec.host].node;
    if (node == nullptr) {
      fail(spec.place,
           fmt::format("Memory '{}' is of a scripted peer, which has none.", spec.name));
    }
    register_region(region);
    const MutableBytes bytes = node->arena().subspan(spec.offset, spec.bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = spec.counting ? static_cast<std::byte>(i) : std::byte{spec.value};
    }
    if (allows(spec.access, Access::flush_persistent)) {
      static_cast<void>(node->make_persistent(bytes.data(), bytes.size()));
    }
    regions_.push_back(region);
  }
}

void Stage::register_region(Region& region) {
  Node& node = *hosts_[region.spec->host].node;
  const auto mr = node.nic().reg_mr(node.pd(), node.arena().data() + region.spec->offset,
                                    region.spec->bytes, region.va(), region.spec->access);
  if (!mr) {
    fail(region.spec->place,
         fmt::format("Memory '{}' can't be registered with these rights: remote_write "
                     "and remote_atomic need local_write.",
                     region.spec->name));
  }
  region.mr = *mr;
  region.lkey = region.mr->lkey;
  region.rkey = region.mr->rkey;
}

void Stage::register_region(const Word& name) {
  Region& target = region(name);
  if (target.mr != nullptr) {
    fail(name, fmt::format("'{}' is registered already.", name.text));
  }
  register_region(target);
}

void Stage::deregister_region(const Word& name) {
  Region& target = region(name);
  if (target.mr == nullptr) {
    fail(name, fmt::format("'{}' isn't registered.", name.text));
  }
  VERBENA_CHECK(hosts_[target.spec->host].node->nic().dereg_mr(*target.mr).has_value());
  target.mr = nullptr;
}

void Stage::change_keys(const Word& name) {
  deregister_region(name);
  register_region(name);
}

Node& Stage::node_of(std::size_t host, Place place) const {
  if (hosts_[host].node == nullptr) {
    fail(place, fmt::format("'{}' is a scripted peer: it has no NIC.", hosts_[host].spec->name));
  }
  return *hosts_[host].node;
}

void Stage::build_shared_queues() {
  xrcds_.resize(hosts_.size());
  for (const SrqSpec& spec : scenario_.srqs) {
    Node& node = node_of(spec.host, spec.place);
    nic::SrqInitAttr init{.wr_max = spec.wr_max, .sge_max = sges_max, .limit = spec.limit};
    if (spec.is_xrc) {
      if (xrcds_[spec.host] == nullptr) {
        xrcds_[spec.host] = node.nic().alloc_xrcd().value();
      }
      init.xrcd = xrcds_[spec.host];
      init.cq = &node.cq();
    }
    const auto srq = node.nic().create_srq(node.pd(), init);
    if (!srq) {
      fail(spec.place, fmt::format("'{}' can't have {} requests and the limit {}.", spec.name,
                                   spec.wr_max, spec.limit));
    }
    shared_queues_.push_back({.spec = &spec, .srq = *srq});
  }
}

void Stage::build_windows() {
  for (const WindowSpec& spec : scenario_.windows) {
    Node& node = node_of(spec.host, spec.place);
    windows_.push_back({.spec = &spec, .mw = node.nic().alloc_mw(node.pd(), spec.type).value()});
  }
}

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
  const std::uint32_t mask =
      nic::qp_attr_mask::state | attributes_wanted(nic::type_of(*end.qp), state);
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

void Stage::make_ready(Connection& connection, std::size_t side, Qpn peer_qpn, Psn peer_psn) {
  End peer = connection.ends[1 - side];
  peer.qpn = peer_qpn;
  peer.first_psn = peer_psn;
  for (const nic::QpState state : {nic::QpState::rtr, nic::QpState::rts}) {
    modify(connection.ends[side], peer, *connection.spec, state);
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

void Stage::build_connections() {
  std::uint32_t peer_qpns = 0;
  for (const ConnectionSpec& spec : scenario_.connections) {
    Connection connection;
    connection.spec = &spec;
    for (std::size_t i = 0; i < 2; ++i) {
      End& end = connection.ends[i];
      end.host = spec.hosts[i];
      end.first_psn = spec.first_psns[i];
      if (hosts_[end.host].node == nullptr) {
        end.qpn = Qpn{qpn_first + qpn_step * static_cast<std::uint32_t>(end.host) + peer_qpns++};
      }
    }
    connections_.push_back(connection);
  }
  for (Connection& connection : connections_) {
    connection.spec->uses_cm ? prepare(connection) : connect(connection);
  }
}

std::size_t Stage::host(const Word& name) const {
  return static_cast<std::size_t>(&named(hosts_, name, "host") - hosts_.data());
}

std::size_t Stage::nic_host(const Word& name) const {
  const std::size_t index = host(name);
  if (hosts_[index].node == nullptr) {
    fail(name, fmt::format("'{}' is a scripted peer: it has no NIC.", name.text));
  }
  return index;
}

Region& Stage::region(const Word& name) { return named(regions_, name, "memory"); }

Location Stage::location(const Word& word) {
  const auto plus = word.text.find('+');
  Location location;
  location.region = &region({word.text.substr(0, plus), word.place});
  if (plus != std::string::npos) {
    const Word offset{word.text.substr(plus + 1),
                      {word.place.line, word.place.column + static_cast<std::uint32_t>(plus) + 1}};
    location.offset = number_of(offset, ~std::uint64_t{0});
  }
  return location;
}

nic::Srq& Stage::srq(const Word& name) {
  return *named(shared_queues_, name, "shared receive queue").srq;
}

nic::Mw& Stage::window(const Word& name) { return *named(windows_, name, "window").mw; }

bool Stage::has_address(std::size_t host, const Gid& gid) const {
  return hosts_[host].spec->gid == gid || hosts_[host].spec->alternate == gid;
}

MutableBytes Stage::bytes(const Location& location, std::uint64_t length, Place place) {
  const MemorySpec& spec = *location.region->spec;
  if (location.offset > spec.bytes || length > spec.bytes - location.offset) {
    fail(place, fmt::format("{} bytes at +{} are outside of '{}', which has {}.", length,
                            location.offset, spec.name, spec.bytes));
  }
  return hosts_[spec.host].node->arena().subspan(spec.offset + location.offset, length);
}

Connection& Stage::connection(std::size_t host, const std::optional<Word>& name, Place place) {
  Connection* found = nullptr;
  for (Connection& connection : connections_) {
    const bool is_of_host = connection.ends[0].host == host || connection.ends[1].host == host;
    if (!is_of_host || (name && connection.spec->name != name->text)) {
      continue;
    }
    if (found != nullptr) {
      fail(place, "The host has several connections: via=NAME must tell which.");
    }
    found = &connection;
  }
  if (found == nullptr) {
    fail(name ? name->place : place,
         name ? fmt::format("The host has no connection named '{}'.", name->text)
              : "The host has no connection.");
  }
  return *found;
}

End& Stage::end_of(Connection& connection, std::size_t host) {
  return connection.ends[connection.ends[0].host == host ? 0 : 1];
}

const End* Stage::end_at(const Gid& address, Qpn qpn) const {
  for (const Connection& connection : connections_) {
    for (const End& end : connection.ends) {
      if (end.qpn == qpn && has_address(end.host, address)) {
        return &end;
      }
    }
  }
  return nullptr;
}

const End* Stage::end_at_port(const Gid& address, std::uint16_t port) const {
  for (const Connection& connection : connections_) {
    for (const End& end : connection.ends) {
      if (end.port == port && hosts_[end.host].spec->gid == address) {
        return &end;
      }
    }
  }
  return nullptr;
}

const End& Stage::peer_of(const End& end) const {
  for (const Connection& connection : connections_) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (&connection.ends[i] == &end) {
        return connection.ends[1 - i];
      }
    }
  }
  return end;
}

std::uint64_t Stage::value(const Word& word, std::uint64_t max) {
  const std::string_view text = word.text;
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) {
    return number_of(word, max);
  }
  const auto dot = text.find('.');
  if (dot == std::string_view::npos) {
    return to_value(location(word).va());
  }
  const Word name{std::string(text.substr(0, dot)), word.place};
  const std::string_view field = text.substr(dot + 1);
  if (field == "qpn") {
    const std::size_t index = host(name);
    return to_value(end_of(connection(index, std::nullopt, word.place), index).qpn);
  }
  const auto window = std::ranges::find(windows_, name.text, [](const Window& candidate) {
    return std::string_view(candidate.spec->name);
  });
  if (field == "rkey" && window != windows_.end()) {
    return to_value(window->mw->rkey);
  }
  if (field == "srqn") {
    return to_value(nic::number_of(srq(name)));
  }
  if (field == "rkey") {
    return to_value(region(name).rkey);
  }
  if (field == "lkey") {
    return to_value(region(name).lkey);
  }
  if (field == "va") {
    return to_value(region(name).va());
  }
  fail(word, fmt::format("'{}' has no '{}': there are .qpn of a host, .rkey, .lkey and .va of a "
                         "memory, .rkey of a window and .srqn of a shared queue.",
                         name.text, field));
}

}  // namespace verbena::sim
