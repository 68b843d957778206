// Engines in real time: operations between two of them, by polling and by the background thread;
// sleep, timers, fork and exit.
#include "ports/engine.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "pcap/reader.h"
#include "ports/fabric.h"
#include "tests/unit/ports/engine_fixture.h"

namespace verbena::ports {
namespace {

using namespace std::chrono_literals;
using test::connect;
using test::eventually;
using test::fill_pattern;
using test::has_pattern;
using test::Node;
using test::TemporaryDirectory;

struct Pair {
  explicit Pair(std::size_t memory_bytes = 1 << 16, Duration ack_timeout_min = 0ms)
      : a(config(ack_timeout_min), memory_bytes), b(config(ack_timeout_min), memory_bytes) {
    connect(a, b);
  }
  [[nodiscard]] DeviceConfig config(Duration ack_timeout_min) const {
    DeviceConfig made = test::config_at(directory / "a.fabric");
    made.ack_timeout_min = std::max(made.ack_timeout_min, ack_timeout_min);
    return made;
  }
  TemporaryDirectory directory;
  Node a;
  Node b;
};

TEST_CASE("a SEND arrives, by polling and by the background threads") {
  const bool spin = GENERATE(true, false);
  Pair pair;
  fill_pattern(pair.a.memory, 1);
  REQUIRE(pair.b.post_recv(7, pair.b.sge(100, 9000)));
  REQUIRE(pair.a.post_send(WrOpcode::send, 8, pair.a.sge(0, 9000), nullptr));
  const Completion received = pair.b.wait(spin);
  CHECK(received.wr_id == 7);
  CHECK(received.status == WcStatus::success);
  CHECK(received.byte_len == 9000);
  const Completion sent = pair.a.wait(spin);
  CHECK(sent.wr_id == 8);
  CHECK(sent.status == WcStatus::success);
  CHECK(has_pattern(ByteView(pair.b.memory).subspan(100, 9000), 1));
}

TEST_CASE("WRITE and READ move bytes while the target only sleeps") {
  // So that an answer that is late, where nobody gets a processor, doesn't count as lost.
  Pair pair(1 << 20, 1min);
  fill_pattern(pair.a.memory, 1);
  REQUIRE(pair.a.post_send(WrOpcode::rdma_write, 1, pair.a.sge(0, 1 << 20), &pair.b));
  CHECK(pair.a.wait().status == WcStatus::success);
  pair.b.settle();
  CHECK(has_pattern(pair.b.memory, 1));

  fill_pattern(pair.b.memory, 2);
  pair.b.settle();
  REQUIRE(pair.a.post_send(WrOpcode::rdma_read, 2, pair.a.sge(0, 1 << 20), &pair.b));
  CHECK(pair.a.wait().status == WcStatus::success);
  CHECK(has_pattern(pair.a.memory, 2));
  const auto counters = pair.a.engine->with_nic([](nic::Nic& nic, Time) { return nic.counters(); });
  CHECK(counters[Counter::retransmitted_pkts] == 0);
}

TEST_CASE("two queue pairs of one engine talk to each other") {
  const TemporaryDirectory directory;
  Node node(directory / "a.fabric");
  node.connect(node.qpn());
  fill_pattern(MutableBytes(node.memory).first(4000), 1);
  REQUIRE(node.post_send(WrOpcode::rdma_write, 1, node.sge(0, 4000), &node, 8000));
  CHECK(node.wait().status == WcStatus::success);
  CHECK(has_pattern(ByteView(node.memory).subspan(8000, 4000), 1));
}

TEST_CASE("many messages both ways at once, with threads that spin on both sides") {
  Pair pair;
  constexpr std::uint64_t count = 2000;
  constexpr std::uint64_t window = 64;
  const auto run = [](Node& node) {
    for (std::uint64_t i = 0; i < window; ++i) {
      if (!node.post_recv(i, node.sge(0, 4096))) {
        return false;
      }
    }
    std::uint64_t posted = 0;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::array<Completion, 16> completions;
    return eventually([&] {
             // No more than the peer has receives for, seen from what it sent: the window is
             // symmetric.
             while (posted < count && posted < sent + 16 && posted < received + window / 2) {
               if (!node.post_send(WrOpcode::send, posted, node.sge(8192, 1 + posted % 4000),
                                   nullptr)) {
                 break;
               }
               ++posted;
             }
             const std::uint32_t polled = node.poll(completions);
             for (std::uint32_t i = 0; i < polled; ++i) {
               if (completions[i].status != WcStatus::success) {
                 return true;
               }
               if (completions[i].opcode == WcOpcode::recv) {
                 ++received;
                 if (!node.post_recv(received, node.sge(0, 4096))) {
                   return true;
                 }
               } else {
                 ++sent;
               }
             }
             return sent == count && received == count;
           }) &&
           sent == count && received == count;
  };
  bool b_done = false;
  std::thread thread([&] { b_done = run(pair.b); });
  const bool a_done = run(pair.a);
  thread.join();
  CHECK(a_done);
  CHECK(b_done);
  CHECK(pair.a.engine->port_statistics().frames_lost == 0);
}

TEST_CASE("who replies to every message and then leaves owes no acknowledgement") {
  // After a few rounds each side expects the other's reply and holds its acknowledgements back.
  // The last message has no reply, and its receiver closes its device at once.
  Pair pair;
  constexpr std::uint64_t rounds = 2000;
  const auto receive = [](Node& node) {
    std::array<Completion, 1> one;
    return eventually([&] { return node.poll(one) == 1; }) && one[0].status == WcStatus::success;
  };
  const auto send = [](Node& node, std::uint64_t round) {
    return node.post_recv(round, node.sge(0, 64)) &&
           node.post_send(WrOpcode::send, round, node.sge(64, 8), nullptr);
  };
  REQUIRE(pair.a.post_recv(0, pair.a.sge(0, 64)));
  REQUIRE(pair.b.post_recv(0, pair.b.sge(0, 64)));
  bool echoed = true;
  std::thread echo([&] {
    for (std::uint64_t round = 1; echoed && round <= rounds; ++round) {
      // The message, and from the second on the completion of the reply before it.
      echoed = receive(pair.b) && (round == 1 || receive(pair.b)) && send(pair.b, round);
    }
    echoed = echoed && receive(pair.b);
  });
  bool asked = true;
  for (std::uint64_t round = 1; asked && round <= rounds; ++round) {
    asked = send(pair.a, round) && receive(pair.a) && receive(pair.a);
  }
  pair.a.engine.reset();
  echo.join();
  CHECK(asked);
  CHECK(echoed);
}

TEST_CASE("several threads use one engine at once") {
  Pair pair(1 << 20);
  fill_pattern(pair.a.memory, 1);
  constexpr std::uint64_t per_thread = 100;
  std::atomic<std::uint64_t> completed = 0;
  std::atomic<std::uint64_t> failed = 0;
  std::mutex consumer;  // One consumer of a CQ at a time, as verbs/ does it.
  const auto run = [&](std::size_t part) {
    for (std::uint64_t i = 0; i < per_thread; ++i) {
      while (!pair.a.post_send(WrOpcode::rdma_write, part, pair.a.sge(part << 18, 5000), &pair.b,
                               part << 18)) {
        pair.a.engine->try_progress();
        std::array<Completion, 8> completions;
        const std::lock_guard guard(consumer);
        completed += pair.a.cq->poll(completions);
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t part = 0; part < 3; ++part) {
    threads.emplace_back(run, part);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(eventually([&] {
    std::array<Completion, 8> completions;
    const std::uint32_t polled = pair.a.poll(completions);
    for (std::uint32_t i = 0; i < polled; ++i) {
      failed += completions[i].status == WcStatus::success ? 0 : 1;
    }
    completed += polled;
    return completed == 3 * per_thread;
  }));
  CHECK(failed == 0);
  pair.b.settle();
  for (std::size_t part = 0; part < 3; ++part) {
    CHECK(std::equal(pair.a.memory.begin() + static_cast<std::ptrdiff_t>(part << 18),
                     pair.a.memory.begin() + static_cast<std::ptrdiff_t>((part << 18) + 5000),
                     pair.b.memory.begin() + static_cast<std::ptrdiff_t>(part << 18)));
  }
}

TEST_CASE("an armed CQ notifies its listener from the background thread") {
  Pair pair;
  pair.b.engine->with_nic([&](nic::Nic& nic, Time) { nic.req_notify_cq(*pair.b.cq, false); });
  REQUIRE(pair.b.post_recv(1, pair.b.sge(0, 100)));
  REQUIRE(pair.a.post_send(WrOpcode::send, 1, pair.a.sge(0, 100), nullptr));
  CHECK(eventually([&] { return pair.b.listener.notifications == 1; }));
}

TEST_CASE("the background thread takes over when an application stops spinning") {
  Pair pair;
  // Long enough for the thread to leave the NIC to this one.
  for (int i = 0; i < 10'000; ++i) {
    pair.b.engine->try_progress();
  }
  REQUIRE(pair.a.post_send(WrOpcode::rdma_write, 1, pair.a.sge(0, 5000), &pair.b));
  CHECK(pair.a.wait(false).status == WcStatus::success);
}

TEST_CASE("a message to nobody ends in RETRY_EXC_ERR by the timers of the sleeping engine") {
  const TemporaryDirectory directory;
  DeviceConfig config = test::config_at(directory / "a.fabric");
  config.ack_timeout_min = 1ms;
  Node node(config);
  node.connect(Qpn{0x700000}, 2);
  REQUIRE(node.post_send(WrOpcode::send, 5, node.sge(0, 100), nullptr));
  const Completion completion = node.wait(false);
  CHECK(completion.status == WcStatus::retry_exc_err);
  CHECK(completion.wr_id == 5);
  CHECK(node.engine->port_statistics().frames_lost == 3);
}

TEST_CASE("a partner that closes its device costs what a dead host costs") {
  const TemporaryDirectory directory;
  DeviceConfig config = test::config_at(directory / "a.fabric");
  config.ack_timeout_min = 1ms;
  Node a(config);
  auto b = std::make_unique<Node>(config);
  a.connect(b->qpn(), 1);
  b->connect(a.qpn(), 1);
  REQUIRE(a.post_send(WrOpcode::rdma_write, 1, a.sge(0, 5000), b.get()));
  CHECK(a.wait().status == WcStatus::success);
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(b->memory.data());
  const Rkey rkey = b->mr->rkey;
  b.reset();
  const Sge local = a.sge(0, 60'000);
  a.engine->with_nic([&](nic::Nic& nic, Time now) {
    SendWr wr;
    wr.wr_id = 2;
    wr.opcode = WrOpcode::rdma_write;
    wr.signaled = true;
    wr.sges = {&local, 1};
    wr.remote_addr = Va{address};
    wr.rkey = rkey;
    REQUIRE(nic.post_send(now, *a.qp, wr));
  });
  CHECK(a.wait(false).status == WcStatus::retry_exc_err);
}

TEST_CASE("an engine with nothing to do uses no processor time") {
  Pair pair;
  // After traffic, and after an application that spun has stopped.
  for (int i = 0; i < 10'000; ++i) {
    pair.b.engine->try_progress();
  }
  REQUIRE(pair.a.post_send(WrOpcode::rdma_write, 1, pair.a.sge(0, 100), &pair.b));
  CHECK(pair.a.wait().status == WcStatus::success);
  const auto switches = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
  };
  // The threads come to rest: in a whole period nothing runs but this thread's own sleep.
  CHECK(eventually([&] {
    const long before = switches();
    std::this_thread::sleep_for(100ms);
    return switches() - before <= 3;
  }));
}

TEST_CASE("create_qp takes another block of QPNs when one is used up") {
  const TemporaryDirectory directory;
  DeviceConfig config = test::config_at(directory / "a.fabric");
  Node node(config);
  std::vector<std::uint32_t> qpns = {to_value(node.qpn())};
  for (std::uint32_t i = 0; i < 4200; ++i) {
    const auto qp = node.engine->create_qp(*node.pd, {.send_cq = node.cq,
                                                      .recv_cq = node.cq,
                                                      .caps = {.send_wr_max = 1,
                                                               .recv_wr_max = 1,
                                                               .send_sge_max = 1,
                                                               .recv_sge_max = 1,
                                                               .inline_bytes_max = 0}});
    REQUIRE(qp);
    qpns.push_back(to_value(nic::qpn_of(**qp)));
  }
  std::ranges::sort(qpns);
  CHECK(std::ranges::adjacent_find(qpns) == qpns.end());
}

TEST_CASE("opening fails with a sentence") {
  test::CountingListener listener;
  const auto engine = Engine::open(test::config_at("/nonexistent/dir/a.fabric"), listener);
  REQUIRE_FALSE(engine);
  CHECK(engine.error().find("/nonexistent/dir") != std::string::npos);
}

TEST_CASE("closing leaves nothing behind") {
  const TemporaryDirectory directory;
  {
    Node a(directory / "a.fabric");
    Node b(directory / "a.fabric");
    connect(a, b);
    REQUIRE(a.post_send(WrOpcode::rdma_write, 1, a.sge(0, 100), &b));
    a.wait();
  }
  CHECK(directory.files().empty());
}

TEST_CASE("a capture of an engine shows request and answer") {
  const TemporaryDirectory directory;
  const std::string path = directory / "trace.pcapng";
  {
    DeviceConfig config = test::config_at(directory / "a.fabric");
    Node b(config);
    config.capture = path;
    Node a(config);
    connect(a, b);
    REQUIRE(a.post_send(WrOpcode::rdma_write, 1, a.sge(0, 100), &b));
    CHECK(a.wait().status == WcStatus::success);
  }
  auto reader = pcap::Reader::open(path);
  REQUIRE(reader);
  const auto request = reader->next();
  REQUIRE((request && *request));
  CHECK((*request)->direction == pcap::Direction::outbound);
  const auto answer = reader->next();
  REQUIRE((answer && *answer));
  CHECK((*answer)->direction == pcap::Direction::inbound);
}

}  // namespace
}  // namespace verbena::ports
