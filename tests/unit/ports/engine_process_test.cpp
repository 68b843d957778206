// Engines and the life of their processes: fork, exit, sudden death, a debugger's pause.
#include <cstdlib>

#include "pcap/reader.h"
#include "tests/unit/ports/child_process.h"
#include "tests/unit/ports/engine_fixture.h"

namespace verbena::ports {
namespace {

using namespace std::chrono_literals;
using test::connect;
using test::exit_status_of;
using test::fill_pattern;
using test::in_child;
using test::kill_and_reap;
using test::Node;
using test::Rendezvous;
using test::TemporaryDirectory;
using test::wait_for_ever;

DeviceConfig quick_config(const std::string& fabric_path) {
  DeviceConfig config = test::config_at(fabric_path);
  config.ring_bytes = ring_bytes_min;
  // Two retries must be enough for a partner that is well, under a sanitizer on a busy machine too.
  config.ack_timeout_min = 200ms;
  return config;
}

/// What a peer in another process needs to know of a node.
struct Introduction {
  Qpn qpn;
  Va address;
  Rkey rkey;
};

Introduction introduce(const Node& node) {
  return {.qpn = node.qpn(),
          .address = Va{reinterpret_cast<std::uintptr_t>(node.memory.data())},
          .rkey = node.mr->rkey};
}

void write_to(Node& node, const Introduction& target, std::size_t bytes) {
  const Sge local = node.sge(0, bytes);
  const bool posted = node.engine->with_nic([&](nic::Nic& nic, Time now) {
    SendWr wr;
    wr.opcode = WrOpcode::rdma_write;
    wr.signaled = true;
    wr.sges = {&local, 1};
    wr.remote_addr = target.address;
    wr.rkey = target.rkey;
    return nic.post_send(now, *node.qp, wr).has_value();
  });
  REQUIRE(posted);
}

/// A child that serves one-sided operations and never calls the engine again.
pid_t start_target(const DeviceConfig& config, const Node& partner, const Rendezvous& rendezvous) {
  return in_child([&]() -> int {
    Node node(config, 1 << 20);
    node.connect(partner.qpn());
    rendezvous.tell_parent(introduce(node));
    wait_for_ever();
  });
}

TEST_CASE("in a child of fork() the engine is dead, and the parent's goes on") {
  const TemporaryDirectory directory;
  Node a(directory / "a.fabric");
  Node b(directory / "a.fabric");
  connect(a, b);
  const pid_t child = in_child([&]() -> int {
    if (!a.engine->is_dead() || a.engine->try_progress()) {
      return 1;
    }
    // Commands do no harm, and neither does closing.
    a.post_send(WrOpcode::rdma_write, 1, a.sge(0, 100), &b);
    a.engine.reset();
    b.engine.reset();
    return 0;
  });
  CHECK(exit_status_of(child) == 0);
  CHECK_FALSE(a.engine->is_dead());
  REQUIRE(a.post_send(WrOpcode::rdma_write, 1, a.sge(0, 100), &b));
  CHECK(a.wait(false).status == WcStatus::success);
  CHECK(directory.files().size() >= 3);
}

TEST_CASE("a child of fork() can open a device of its own") {
  const TemporaryDirectory directory;
  Node parent(directory / "a.fabric");
  const Rendezvous rendezvous;
  const pid_t child = start_target(quick_config(directory / "a.fabric"), parent, rendezvous);
  const auto target = rendezvous.hear_child<Introduction>();
  parent.connect(target.qpn);
  write_to(parent, target, 5000);
  CHECK(parent.wait().status == WcStatus::success);
  kill_and_reap(child);
}

TEST_CASE("exit() with an open device writes the capture out and leaves the fabric") {
  const TemporaryDirectory directory;
  const std::string capture = directory / "trace.pcapng";
  const pid_t child = in_child([&]() -> int {
    DeviceConfig config = test::config_at(directory / "a.fabric");
    config.capture = capture;
    auto* node = new Node(config);
    node->connect(node->qpn());
    node->post_send(WrOpcode::rdma_write, 1, node->sge(0, 100), node);
    // What atexit() has registered runs; LeakSanitizer's verdict on `node` doesn't matter here.
    std::exit(0);
  });
  CHECK(exit_status_of(child) == 0);
  CHECK(directory.files() == std::vector<std::string>{"trace.pcapng"});
  auto reader = pcap::Reader::open(capture);
  REQUIRE(reader);
  const auto packet = reader->next();
  CHECK((packet && *packet));
}

TEST_CASE("a partner that is killed costs its retries, and the next one works") {
  const TemporaryDirectory directory;
  const DeviceConfig config = quick_config(directory / "a.fabric");
  for (int life = 0; life < 3; ++life) {
    Node own(config, 1 << 20);
    const Rendezvous rendezvous;
    const pid_t child = start_target(config, own, rendezvous);
    const auto target = rendezvous.hear_child<Introduction>();
    own.connect(target.qpn, 2);
    write_to(own, target, 1 << 20);
    CHECK(own.wait().status == WcStatus::success);
    write_to(own, target, 1 << 20);
    kill_and_reap(child);
    write_to(own, target, 1 << 20);
    // The one that was under way may have ended in time.
    Completion completion = own.wait(false);
    if (completion.status == WcStatus::success) {
      completion = own.wait(false);
    }
    CHECK(completion.status == WcStatus::retry_exc_err);
  }
  CHECK(directory.files().empty());
}

/// Nothing of it runs any more when this returns, until SIGCONT.
void stop(pid_t child) {
  REQUIRE(kill(child, SIGSTOP) == 0);
  int status = 0;
  REQUIRE(waitpid(child, &status, WUNTRACED) == child);
}

TEST_CASE("a partner that gets no processor for a while costs no retries") {
  const TemporaryDirectory directory;
  const DeviceConfig config = quick_config(directory / "a.fabric");
  Node own(config, 1 << 20);
  const Rendezvous rendezvous;
  const pid_t child = start_target(config, own, rendezvous);
  const auto target = rendezvous.hear_child<Introduction>();
  own.connect(target.qpn, 1);
  write_to(own, target, 100);
  REQUIRE(own.wait().status == WcStatus::success);

  stop(child);
  write_to(own, target, 1 << 20);
  // More timeouts than there are retries.
  const auto is_patient = [&](nic::Nic& nic, Time) {
    return nic.counters()[Counter::ack_timer_renewed] < 4 &&
           nic::state_of(*own.qp) == nic::QpState::rts;
  };
  while (own.engine->with_nic(is_patient)) {
    own.engine->try_progress();
  }
  kill(child, SIGCONT);
  CHECK(own.wait().status == WcStatus::success);
  kill_and_reap(child);
}

TEST_CASE("a partner that a debugger stops costs its retries, and others are not disturbed") {
  const TemporaryDirectory directory;
  const DeviceConfig config = quick_config(directory / "a.fabric");
  Node own(config, 1 << 20);
  Node other(config, 1 << 20);
  other.connect(other.qpn());
  const Rendezvous rendezvous;
  const pid_t child = start_target(config, own, rendezvous);
  const auto target = rendezvous.hear_child<Introduction>();
  own.connect(target.qpn, 2);
  write_to(own, target, 100);
  REQUIRE(own.wait().status == WcStatus::success);

  stop(child);
  // More than fits into the ring.
  write_to(own, target, 1 << 20);
  REQUIRE(other.post_send(WrOpcode::rdma_write, 1, other.sge(0, 100'000), &other, 200'000));
  CHECK(other.wait().status == WcStatus::success);
  CHECK(own.wait(false).status == WcStatus::retry_exc_err);
  CHECK(own.engine->port_statistics().times_blocked > 0);

  kill(child, SIGCONT);
  kill_and_reap(child);
}

}  // namespace
}  // namespace verbena::ports
