// The simulator's speed: events and packets a second with few and many queue pairs and hosts, and
// the memory that an idle queue pair costs. Time per packet should grow no faster than the
// logarithm of the number of pending events.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "nic_model/qp_state_table.h"
#include "proto/roce/gid.h"
#include "sim/simulation.h"

namespace verbena::sim {
namespace {

constexpr std::uint32_t message_bytes = 1'024;
constexpr std::size_t arena_bytes = 65'536;

/// Hosts around a switch; queue pairs between neighbours, each of which writes without end.
class Ring final : public Application {
 public:
  Ring(std::size_t qps, std::size_t hosts) : simulation_(1) {
    Switch& hub = simulation_.add_switch("switch", Duration(300));
    for (std::size_t i = 0; i < hosts; ++i) {
      NodeConfig config;
      config.gid = roce::gid_from_ipv4(
          inet::Ipv4Address::from_value(0x0A00'0001 + static_cast<std::uint32_t>(i)));
      config.arena_bytes = arena_bytes;
      config.cqe = 4'096;
      Node& node = simulation_.add_node(config);
      node.set_application(this);
      simulation_.connect(node, hub, LinkConfig{});
      nodes_.push_back(&node);
      regions_.push_back(*node.nic().reg_mr(node.pd(), node.arena().data(), arena_bytes, arena_va,
                                            Access::local_write | Access::remote_write));
    }
    // A connection has a queue pair at each end.
    for (std::size_t i = 0; i < qps / 2; ++i) {
      connect(i % hosts, (i + 1) % hosts);
    }
  }

  Simulation& simulation() { return simulation_; }

  void start() {
    for (const auto& [host, qp] : writers_) {
      post(host, *qp);
      nodes_[host]->drive();
    }
  }

  void on_completion(Node& node, const Completion& completion) override {
    post(static_cast<std::size_t>(node.id()) - 1, *node.nic().find_qp(completion.qpn));
  }
  void on_async_event(Node& /*node*/, const nic::AsyncEvent& /*event*/) override {}

 private:
  nic::Qp& create(std::size_t host) {
    Node& node = *nodes_[host];
    nic::QpInitAttr init;
    init.send_cq = init.recv_cq = &node.cq();
    init.caps = {.send_wr_max = 4,
                 .recv_wr_max = 4,
                 .send_sge_max = 1,
                 .recv_sge_max = 1,
                 .inline_bytes_max = 0};
    return **node.nic().create_qp(node.pd(), init);
  }

  void connect(std::size_t a, std::size_t b) {
    nic::Qp& first = create(a);
    nic::Qp& second = create(b);
    bring_up(a, first, b, second);
    bring_up(b, second, a, first);
    writers_.emplace_back(a, &first);
  }

  void bring_up(std::size_t host, nic::Qp& qp, std::size_t peer_host, const nic::Qp& peer) {
    nic::QpAttr attr;
    attr.access_flags = Access::remote_write;
    attr.av.dgid = nodes_[peer_host]->gid();
    attr.av.has_grh = true;
    attr.dest_qpn = nic::qpn_of(peer);
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
    for (const nic::QpState state : nic::bring_up_states) {
      attr.state = state;
      const std::uint32_t mask = nic::bring_up_mask(nic::QpType::rc, state);
      static_cast<void>(nodes_[host]->nic().modify_qp(simulation_.now(), qp, attr, mask));
    }
  }

  void post(std::size_t host, nic::Qp& qp) {
    const Sge sge{.addr = arena_va, .length = message_bytes, .lkey = regions_[host]->lkey};
    SendWr wr;
    wr.opcode = WrOpcode::rdma_write;
    wr.signaled = true;
    wr.sges = {&sge, 1};
    wr.remote_addr = arena_va;
    wr.rkey = regions_[(host + 1) % nodes_.size()]->rkey;
    static_cast<void>(nodes_[host]->nic().post_send(simulation_.now(), qp, wr));
  }

  Simulation simulation_;
  std::vector<Node*> nodes_;
  std::vector<nic::Mr*> regions_;
  std::vector<std::pair<std::size_t, nic::Qp*>> writers_;
};

void simulate(benchmark::State& state) {
  Ring ring(static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1)));
  Simulation& simulation = ring.simulation();
  ring.start();
  const std::uint64_t events = simulation.events_done();
  const std::uint64_t packets = simulation.trace().count(TraceKind::sent);
  for (auto _ : state) {
    for (int i = 0; i < 1'000; ++i) {
      simulation.step();
    }
  }
  const auto rate = [](std::uint64_t count) {
    return benchmark::Counter(static_cast<double>(count), benchmark::Counter::kIsRate);
  };
  state.counters["events"] = rate(simulation.events_done() - events);
  state.counters["packets"] = rate(simulation.trace().count(TraceKind::sent) - packets);
  state.counters["pending"] = static_cast<double>(simulation.events_pending());
}
BENCHMARK(simulate)->ArgNames({"qps", "hosts"})->ArgsProduct({{2, 64, 1'024}, {2, 16, 128}});

/// Bytes of heap that a connected queue pair takes while nothing happens.
void idle_queue_pair(benchmark::State& state) {
  constexpr std::size_t qps = 1'024;
  double bytes = 0;
  for (auto _ : state) {
    const Ring none(0, 2);
    const std::size_t before = mallinfo2().uordblks;
    const Ring many(qps, 2);
    const std::size_t with_hosts = mallinfo2().uordblks - before;
    const std::size_t again = mallinfo2().uordblks;
    const Ring empty(0, 2);
    const std::size_t hosts = mallinfo2().uordblks - again;
    bytes = static_cast<double>(with_hosts - hosts) / qps;
  }
  state.counters["bytes_per_qp"] = bytes;
}
BENCHMARK(idle_queue_pair)->Iterations(1);

}  // namespace
}  // namespace verbena::sim

BENCHMARK_MAIN();
