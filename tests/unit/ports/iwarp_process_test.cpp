// iWARP engines and the life of their processes: fork, exit, sudden death.
#include <cstdlib>

#include "tests/unit/ports/child_process.h"
#include "tests/unit/ports/iwarp_fixture.h"

namespace verbena::ports {
namespace {

using namespace test;
using Kind = IwarpEvent::Kind;
using nic::QpState;

TEST_CASE("a child of fork() has no hold on the connections, and its commands fail") {
  IwarpPair pair;
  const Rendezvous rendezvous;
  const std::uint16_t port = pair.b.listen();
  const PlainPeer waiting(port);
  const pid_t child = in_child([&]() -> int {
    const bool fails = pair.a.service->is_dead() &&
                       pair.a.service->disconnect(pair.a_id, false) == EIO &&
                       !pair.a.service->bind({.address = local_host()});
    pair.a.service->destroy(pair.a_id);
    rendezvous.tell_parent(fails);
    wait_for_ever();
  });
  CHECK(rendezvous.hear_child<bool>());
  // The parent's go on, and its ports and connections end although the child lives.
  REQUIRE(pair.b.post_recv(7, pair.b.sge(0, 100)));
  REQUIRE(pair.a.post_send(WrOpcode::send, 8, pair.a.sge(0, 100), nullptr));
  CHECK(pair.b.wait().status == WcStatus::success);
  pair.b.service->release(pair.b.listening);
  // It may have seen its end before it can say anything.
  static_cast<void>(waiting.send(request_frame()));
  CHECK(waiting.sees_end());
  REQUIRE(pair.a.service->disconnect(pair.a_id, false) == 0);
  pair.b.next(Kind::disconnected);
  kill_and_reap(child);
}

/// Runs `body` in another process with one end of a connection to `node`.
template <class Body>
pid_t start_peer(const DeviceConfig& config, IwarpNode& node, Body body) {
  const std::uint16_t port = node.listen();
  const pid_t child = in_child([&]() -> int {
    IwarpNode peer(config, {}, 1 << 20);
    peer.begin(port);
    peer.next(Kind::established);
    return body(peer);
  });
  const auto id = node.next(Kind::request).event.id;
  REQUIRE(node.service->accept(id, node.qpn(), {}, {}) == 0);
  node.next(Kind::established);
  return child;
}

TEST_CASE("what a process posted before exit() arrives, as far as the kernel has taken it") {
  const TemporaryDirectory directory;
  const DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  IwarpNode node(config);
  REQUIRE(node.post_recv(7, node.sge(0, 5000)));
  const pid_t child = start_peer(config, node, [](IwarpNode& peer) -> int {
    fill_pattern(MutableBytes(peer.memory).first(5000), 1);
    peer.post_send(WrOpcode::send, 8, peer.sge(0, 5000), nullptr);
    exit(0);
  });
  CHECK(node.wait().status == WcStatus::success);
  CHECK(has_pattern(ByteView(node.memory).first(5000), 1));
  node.next(Kind::disconnected);
  CHECK(exit_status_of(child) == 0);
}

TEST_CASE("the death of a process ends its connections") {
  const TemporaryDirectory directory;
  const DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  IwarpNode node(config);
  const pid_t child = start_peer(config, node, [](IwarpNode& /*peer*/) -> int { wait_for_ever(); });
  kill_and_reap(child);
  node.next(Kind::disconnected);
  CHECK(node.state() != QpState::rts);
}

}  // namespace
}  // namespace verbena::ports
