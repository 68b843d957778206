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
      config.rdmap_extensions = spec.rdmap_extensions;
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
  VERBENA_CHECK(false);  // An end is one of a connection's two.
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
