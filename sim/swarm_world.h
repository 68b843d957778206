// One world of the swarm. Internal to the swarm.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "faults/rule.h"
#include "proto/counters.h"
#include "proto/work.h"
#include "sim/simulation.h"

namespace verbena::sim {

/// The longest message in packets: several, but not so many that a seed takes long.
inline constexpr std::uint64_t message_packets_max = 6;

class SwarmWorld final : public Application, public FrameObserver, public EventHandler {
 public:
  /// Everything is drawn from the seed; `without` names faults to leave out, by their position.
  SwarmWorld(std::uint64_t seed, const std::vector<bool>& without);

  /// Runs to the end and checks. What doesn't hold, if anything.
  [[nodiscard]] std::optional<std::string> run();

  [[nodiscard]] Simulation& simulation() { return simulation_; }
  [[nodiscard]] const faults::RuleSet& faults() const { return faults_; }
  [[nodiscard]] std::uint64_t retransmissions() const;
  [[nodiscard]] std::uint64_t broken_connections() const;

  void on_completion(Node& node, const Completion& completion) override;
  void on_async_event(Node& node, const nic::AsyncEvent& event) override;
  void on_sent(Time now, const Frame& frame) override;
  void on_arrived(Time now, StationId at, const Frame& frame, const RxVerdict& verdict) override;
  void on_event(Time now, std::uint64_t token) override;

 private:
  /// A request, and where its bytes come from and go to: offsets in the arenas of both hosts.
  struct Request {
    WrOpcode opcode = WrOpcode::send;
    std::uint32_t length = 0;
    std::size_t local = 0;
    std::size_t remote = 0;
    /// Of a FLUSH, whose bytes are a part of an earlier WRITE's.
    bool persists = false;
    Duration post_at{};
    std::optional<WcStatus> status;
  };
  struct Receive {
    /// Which of the other side's requests it is for.
    std::size_t request = 0;
    std::size_t local = 0;
    std::uint32_t length = 0;
    Duration post_at{};
    std::optional<WcStatus> status;
    std::uint32_t received_bytes = 0;
  };
  /// One side of a connection: what it posts, and how far it has come.
  struct Side {
    Node* node = nullptr;
    nic::Qp* qp = nullptr;
    Psn first_psn;
    std::uint8_t rd_atomic = 1;
    std::uint32_t mtu_bytes = 1024;
    /// Memory of this side that the other's atomics work on.
    std::size_t counter = 0;
    std::vector<Request> requests;
    std::vector<Receive> receives;
    std::size_t requests_posted = 0;
    std::size_t receives_posted = 0;
    std::size_t requests_done = 0;
    std::size_t receives_done = 0;
    /// Atomics that this side posted and whose answers have come.
    std::uint64_t atomics_answered = 0;
    /// The highest PSN that a response has acknowledged, and one more.
    Psn una;
  };

  // Drawing.
  void draw_hosts();
  void draw_connections();
  void draw_work(Side& side, Side& peer);
  [[nodiscard]] Request draw_request(Side& side, Side& peer);
  [[nodiscard]] std::optional<Request> draw_flush(const Side& side);
  void draw_faults(const std::vector<bool>& without);
  void connect(Side& side, const Side& peer, std::uint8_t timeout, nic::Mtu mtu);
  /// Room of its own in a host's arena, with untouchable bytes behind it.
  [[nodiscard]] std::size_t grant(Node& node, std::size_t bytes);
  [[nodiscard]] Side& peer_of(Side& side);
  [[nodiscard]] Side* side_of(Qpn qpn, StationId station);

  // Working.
  void post_due(Side& side, Time now);
  void post_request(Side& side, Request& request, std::uint64_t id);
  void note_failure(std::string text);

  // Checking at every step: sim/swarm_checks.cpp.
  void check_window(const Frame& frame, const PacketSummary& packet);
  void check_guards(StationId host);
  void check_completed_request(Side& side, const Request& request);
  void check_completed_receive(Side& side, const Receive& receive);
  void check_counters();
  // Checking at the end.
  void check_end();
  void check_side(Side& side);
  void check_memory();
  void check_request(Side& side, const Request& request);
  void check_atomic_write(Side& side, const Request& request);
  void check_flush(Side& side, const Request& request);
  void check_messages(Side& side);
  void check_atomics(Side& side);
  void check_executed();
  [[nodiscard]] std::uint64_t counter_before(const Side& side) const;

  Prng prng_;
  Simulation simulation_;
  std::vector<Node*> nodes_;
  std::vector<nic::Mr*> regions_;
  /// Bytes of an arena.
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  /// By host: the arena at the beginning, which bytes may change, and how much is given out.
  struct Shadow {
    std::vector<std::byte> before;
    std::vector<bool> granted;
    /// What lies between grants, and must never change.
    std::vector<Range> guards;
    std::size_t used = 0;
  };
  std::vector<Shadow> shadows_;
  std::vector<std::array<Side, 2>> connections_;
  faults::RuleSet faults_;
  /// By host, what its NIC should have counted, by what was seen.
  std::vector<Counters> seen_;
  std::optional<std::string> failure_;
};

}  // namespace verbena::sim
