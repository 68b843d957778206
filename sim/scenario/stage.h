// The world of a scenario, built: hosts with their memory and connections, under the names that the
// story uses. Internal to sim/scenario/.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "nic_model/nic.h"
#include "sim/scenario/scenario.h"
#include "sim/simulation.h"

namespace verbena::sim {

/// Pieces of memory in a request.
inline constexpr std::uint32_t sges_max = 8;

/// A region of memory: registered, under keys that may change.
struct Region {
  const MemorySpec* spec = nullptr;
  nic::Mr* mr = nullptr;
  /// After deregistration: the keys that it had.
  Lkey lkey{};
  Rkey rkey{};
  [[nodiscard]] Va va() const { return arena_va + spec->offset; }
};

/// One end of a connection.
struct End {
  std::size_t host = 0;
  Qpn qpn{};
  Psn first_psn;
  /// nullptr at a scripted peer.
  nic::Qp* qp = nullptr;
  /// Of iWARP: TCP's.
  std::uint16_t port = 0;
  /// Of datagrams: where the other end is.
  nic::Ah* to_peer = nullptr;
};

struct SharedQueue {
  const SrqSpec* spec = nullptr;
  nic::Srq* srq = nullptr;
};

struct Window {
  const WindowSpec* spec = nullptr;
  nic::Mw* mw = nullptr;
};

struct Connection {
  const ConnectionSpec* spec = nullptr;
  std::array<End, 2> ends;
};

struct Host {
  const HostSpec* spec = nullptr;
  Node* node = nullptr;
  RawPeer* peer = nullptr;
  Link link;
};

/// Some bytes of a region, as "target+8" names them.
struct Location {
  Region* region = nullptr;
  std::uint64_t offset = 0;
  [[nodiscard]] Va va() const { return region->va() + offset; }
  [[nodiscard]] std::uint64_t bytes_left() const { return region->spec->bytes - offset; }
};

class Stage {
 public:
  Stage(const Scenario& scenario, std::uint64_t seed);

  [[nodiscard]] const Scenario& scenario() const { return scenario_; }
  [[nodiscard]] Simulation& simulation() { return simulation_; }
  [[nodiscard]] std::vector<Host>& hosts() { return hosts_; }
  [[nodiscard]] std::vector<Connection>& connections() { return connections_; }
  [[nodiscard]] const std::vector<Region>& regions() const { return regions_; }

  // Names of a story; a word that names nothing is a ScenarioError.
  [[nodiscard]] std::size_t host(const Word& name) const;
  [[nodiscard]] std::size_t nic_host(const Word& name) const;
  [[nodiscard]] Location location(const Word& word);
  [[nodiscard]] nic::Srq& srq(const Word& name);
  [[nodiscard]] nic::Mw& window(const Word& name);
  /// Whether the host has that address, as its first or as its alternate one.
  [[nodiscard]] bool has_address(std::size_t host, const Gid& gid) const;
  /// `place` is for the error if that is too long.
  [[nodiscard]] MutableBytes bytes(const Location& location, std::uint64_t length, Place place);
  /// The connection of that name; without a name the only one that the host has.
  [[nodiscard]] Connection& connection(std::size_t host, const std::optional<Word>& name,
                                       Place place);
  [[nodiscard]] End& end_of(Connection& connection, std::size_t host);
  /// The end that a packet to that address and QP is for.
  [[nodiscard]] const End* end_at(const Gid& address, Qpn qpn) const;
  /// The same for a segment of iWARP.
  [[nodiscard]] const End* end_at_port(const Gid& address, std::uint16_t port) const;
  /// The other end of the connection whose end that is.
  [[nodiscard]] const End& peer_of(const End& end) const;
  /// A number, or what a name stands for: target.rkey, target.va, target+8, client.qpn.
  [[nodiscard]] std::uint64_t value(const Word& word, std::uint64_t max);

  /// The story begins: connections that take time are begun.
  void begin();
  /// No connection is being set up.
  [[nodiscard]] bool is_settled() const;

  // What a story changes.
  void register_region(Region& region);
  void register_region(const Word& name);
  void deregister_region(const Word& name);
  void change_keys(const Word& name);
  /// From RESET to RTS, both ends; those that were closed are created anew.
  void connect(Connection& connection);
  /// From INIT to RTS, one end, with what its peer has told of itself.
  void make_ready(Connection& connection, std::size_t side, Qpn peer_qpn, Psn own_psn);
  /// To ERR.
  void make_fail(const End& end);
  /// Destroys the queue pairs of both ends.
  void close(Connection& connection);
  /// Tells the queue pair of a second way to its peer.
  void load_alternate_path(Connection& connection, std::size_t host, Place place);

 private:
  void build_hosts();
  void build_links();
  void build_memory();
  void build_shared_queues();
  void build_windows();
  void build_connections();
  /// Queue pairs in INIT, for connection managers to connect.
  void prepare(Connection& connection);
  void create_qp(const ConnectionSpec& spec, std::size_t side, End& end);
  [[nodiscard]] Node& node_of(std::size_t host, Place place) const;
  void connect_streams(Connection& connection);
  void drive(const Connection& connection);
  [[nodiscard]] nic::AddressVector address_of(const End& end) const;
  void address(End& end, const End& peer);
  [[nodiscard]] Region& region(const Word& name);
  void modify(const End& end, const End& peer, const ConnectionSpec& spec, nic::QpState state);

  const Scenario& scenario_;
  Simulation simulation_;
  std::vector<Host> hosts_;
  std::vector<Region> regions_;
  std::vector<SharedQueue> shared_queues_;
  std::vector<Window> windows_;
  /// By host; null where there is no queue for XRC.
  std::vector<nic::Xrcd*> xrcds_;
  std::vector<Connection> connections_;
  bool has_begun_ = false;
  /// Ports of connecting hosts that were given.
  std::uint16_t ports_given_ = 0;
};

}  // namespace verbena::sim
