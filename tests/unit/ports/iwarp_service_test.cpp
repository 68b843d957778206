// iWARP in real time, over TCP sockets of this host: connections between two engines.
#include "ports/iwarp_service.h"

#include <fcntl.h>

#include <algorithm>
#include <array>

#include "proto/iwarp/fpdu_writer.h"
#include "tests/unit/ports/iwarp_fixture.h"

namespace verbena::ports {
namespace {

using namespace std::chrono_literals;
using namespace test;
using Kind = IwarpEvent::Kind;
using nic::QpState;

TEST_CASE("a connection: private data, depths and addresses reach the other end") {
  const TemporaryDirectory directory;
  const DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  IwarpNode a(config);
  IwarpNode b(config);
  const std::uint16_t port = b.listen(77);
  a.begin(port, bytes_from("request"), {.ird = 5, .ord = 6});

  const SeenEvent request = b.next(Kind::request);
  CHECK(request.event.cookie == 77);
  CHECK(request.private_data == bytes_from("request"));
  CHECK(request.event.peer_depths == iwarp::ReadDepths{.ird = 5, .ord = 6});
  CHECK(port_of(request.event.local) == port);
  REQUIRE(b.service->accept(request.event.id, b.qpn(), {.ird = 4, .ord = 9}, bytes_from("reply")) ==
          0);
  CHECK(b.state() == QpState::rts);

  const SeenEvent accepted = b.next(Kind::established);
  CHECK(accepted.event.cookie >= Listener::request_cookie);
  CHECK(accepted.event.depths == iwarp::ReadDepths{.ird = 4, .ord = 5});
  const SeenEvent connected = a.next(Kind::established);
  CHECK(connected.event.cookie == 2);
  CHECK(connected.private_data == bytes_from("reply"));
  CHECK(connected.event.depths == iwarp::ReadDepths{.ird = 5, .ord = 4});
  CHECK(port_of(connected.event.remote) == port);
  CHECK(port_of(connected.event.local) == port_of(request.event.remote));
  CHECK(a.state() == QpState::rts);
  CHECK(statistics_of(a).streams_opened == 1);
}

TEST_CASE("a SEND, a WRITE and a READ, by polling and by the background threads") {
  const bool spin = GENERATE(true, false);
  IwarpPair pair(1 << 20);
  fill_pattern(pair.a.memory, 1);
  REQUIRE(pair.b.post_recv(7, pair.b.sge(100, 9000)));
  REQUIRE(pair.a.post_send(WrOpcode::send, 8, pair.a.sge(0, 9000), nullptr));
  const Completion received = pair.b.wait(spin);
  CHECK(received.wr_id == 7);
  CHECK(received.status == WcStatus::success);
  CHECK(received.byte_len == 9000);
  CHECK(pair.a.wait(spin).status == WcStatus::success);
  pair.b.settle();
  CHECK(std::ranges::equal(ByteView(pair.b.memory).subspan(100, 9000),
                           ByteView(pair.a.memory).first(9000)));

  // What was looked at is written over now, by a thread that comes behind this lock.
  pair.b.settle();
  REQUIRE(pair.a.post_send(WrOpcode::rdma_write, 9, pair.a.sge(0, 1 << 20), &pair.b));
  REQUIRE(pair.a.wait(spin).status == WcStatus::success);
  fill_pattern(pair.a.memory, 2);
  // What is read has been written before: a stream is in order.
  REQUIRE(pair.a.post_send(WrOpcode::rdma_read, 10, pair.a.sge(0, 1 << 20), &pair.b));
  REQUIRE(pair.a.wait(spin).status == WcStatus::success);
  CHECK(has_pattern(pair.a.memory, 1));
}

TEST_CASE("markers, no CRC, revision 1: what peers in the field want, both ways") {
  const iwarp::MpaSettings mpa = GENERATE(
      iwarp::MpaSettings{.markers = true}, iwarp::MpaSettings{.crc = iwarp::CrcPolicy::accept},
      iwarp::MpaSettings{.revision = 1}, iwarp::MpaSettings{.peer_to_peer = true});
  IwarpPair pair(1 << 18, mpa);
  fill_pattern(pair.a.memory, 1);
  REQUIRE(pair.a.post_send(WrOpcode::rdma_write, 9, pair.a.sge(0, 1 << 18), &pair.b));
  REQUIRE(pair.a.wait().status == WcStatus::success);
  REQUIRE(pair.b.post_send(WrOpcode::rdma_read, 10, pair.b.sge(0, 1 << 17), &pair.a, 1 << 17));
  REQUIRE(pair.b.wait().status == WcStatus::success);
  CHECK(std::ranges::equal(ByteView(pair.b.memory).first(1 << 17),
                           ByteView(pair.a.memory).subspan(1 << 17)));
}

TEST_CASE("who has accepted a connection may send first") {
  IwarpPair pair(1 << 16, {.peer_to_peer = true});
  REQUIRE(pair.a.post_recv(7, pair.a.sge(0, 100)));
  REQUIRE(pair.b.post_send(WrOpcode::send, 8, pair.b.sge(0, 100), nullptr));
  CHECK(pair.a.wait().status == WcStatus::success);
  CHECK(pair.b.wait().status == WcStatus::success);
}

TEST_CASE("who disconnects in order has everything sent before, and both ends hear of it") {
  IwarpPair pair(1 << 22);
  fill_pattern(pair.a.memory, 1);
  REQUIRE(pair.a.post_send(WrOpcode::rdma_write, 1, pair.a.sge(0, 1 << 22), &pair.b));
  REQUIRE(pair.a.service->disconnect(pair.a_id, false) == 0);
  CHECK(pair.b.next(Kind::disconnected).event.cookie >= Listener::request_cookie);
  CHECK(pair.a.next(Kind::disconnected).event.cookie == 2);
  CHECK(pair.a.wait().status == WcStatus::success);
  pair.b.settle();
  CHECK(has_pattern(pair.b.memory, 1));
  CHECK(pair.a.state() == QpState::init);
  CHECK(pair.b.state() == QpState::init);
  CHECK(pair.a.service->disconnect(pair.a_id, false) == EINVAL);
  CHECK(statistics_of(pair.a).streams_lost == 0);
}

TEST_CASE("who disconnects at once resets the connection") {
  IwarpPair pair;
  REQUIRE(pair.b.post_recv(7, pair.b.sge(0, 100)));
  REQUIRE(pair.a.service->disconnect(pair.a_id, true) == 0);
  pair.b.next(Kind::disconnected);
  pair.a.next(Kind::disconnected);
  CHECK(pair.b.wait().status == WcStatus::wr_flush_err);
  CHECK(pair.b.state() == QpState::err);
  CHECK(statistics_of(pair.b).streams_lost == 1);
}

TEST_CASE("a queue pair can be used for a second connection") {
  IwarpPair pair;
  REQUIRE(pair.a.service->disconnect(pair.a_id, false) == 0);
  pair.b.next(Kind::disconnected);
  pair.a.next(Kind::disconnected);
  const std::uint16_t port = pair.b.listen();
  pair.a.begin(port);
  const auto id = pair.b.next(Kind::request).event.id;
  REQUIRE(pair.b.service->accept(id, pair.b.qpn(), {}, {}) == 0);
  pair.a.next(Kind::established);
  REQUIRE(pair.b.post_recv(7, pair.b.sge(0, 100)));
  REQUIRE(pair.a.post_send(WrOpcode::send, 8, pair.a.sge(0, 100), nullptr));
  CHECK(pair.b.wait().status == WcStatus::success);
}

TEST_CASE("a queue pair that is destroyed takes its connection along") {
  IwarpPair pair;
  REQUIRE(pair.b.post_recv(7, pair.b.sge(0, 100)));
  REQUIRE(pair.a.post_send(WrOpcode::send, 8, pair.a.sge(0, 100), nullptr));
  REQUIRE(pair.a.engine->destroy_qp(*pair.a.qp));
  // What was sent before arrives.
  CHECK(pair.b.wait().status == WcStatus::success);
  pair.b.next(Kind::disconnected);
  pair.a.next(Kind::disconnected);
  pair.a.service->destroy(pair.a_id);
}

TEST_CASE("a program that forgets a connection hears no more of it") {
  IwarpPair pair;
  pair.a.service->destroy(pair.a_id);
  pair.b.next(Kind::disconnected);
  CHECK(eventually([&] { return pair.a.state() == QpState::init; }));
  CHECK_FALSE(pair.a.events.take());
}

TEST_CASE("a request is rejected by the program, with a reason") {
  const TemporaryDirectory directory;
  const DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  IwarpNode a(config);
  IwarpNode b(config);
  a.begin(b.listen());
  const auto id = b.next(Kind::request).event.id;
  REQUIRE(b.service->reject(id, bytes_from("not you")) == 0);
  const SeenEvent rejected = a.next(Kind::rejected);
  CHECK(rejected.event.status == -ECONNRESET);
  CHECK(rejected.private_data == bytes_from("not you"));
  CHECK(a.state() == QpState::init);
  CHECK(b.service->reject(id, {}) == EINVAL);

  // For want of resources.
  b.events.refuses = true;
  a.begin(b.listen());
  b.next(Kind::request);
  CHECK(a.next(Kind::rejected).event.status == -ECONNRESET);
}

TEST_CASE("nobody listens: the connection is refused") {
  const TemporaryDirectory directory;
  IwarpNode a(iwarp_config_at(directory / "a.fabric"));
  const std::uint16_t port = a.listen();
  a.service->release(a.listening);
  a.begin(port);
  const SeenEvent refused = a.next(Kind::rejected);
  CHECK(refused.event.status == -ECONNREFUSED);
  CHECK(port_of(refused.event.remote) == port);
}

TEST_CASE("what can't be is refused at once") {
  const TemporaryDirectory directory;
  IwarpNode a(iwarp_config_at(directory / "a.fabric"));
  const std::uint16_t port = a.listen();
  const std::vector<std::byte> data(a.service->private_data_room() + 1);
  IwarpConnect what{.remote = local_host(port), .local = local_host(), .qpn = a.qpn()};
  SECTION("too much private data") { what.private_data = data; }
  SECTION("more READs than the device has") {
    what.depths.ord = static_cast<std::uint16_t>(a.service->depths_max().ord + 1);
  }
  SECTION("no such queue pair") { what.qpn = Qpn{1}; }
  SECTION("no such port") { what.bound = IwarpPortId{99}; }
  const auto begun = a.service->connect(what);
  REQUIRE_FALSE(begun);
  CHECK(begun.error() == EINVAL);
  CHECK(a.service->accept(IwarpConnectionId{99}, a.qpn(), {}, {}) == EINVAL);
  CHECK(a.service->listen(IwarpPortId{99}, 1, 1) == EINVAL);
}

TEST_CASE("ports are the kernel's") {
  const TemporaryDirectory directory;
  IwarpNode a(iwarp_config_at(directory / "a.fabric"));
  const std::uint16_t port = a.listen();
  const auto taken = a.service->bind({.address = local_host(port)});
  REQUIRE_FALSE(taken);
  CHECK(taken.error() == EADDRINUSE);
  const auto elsewhere =
      a.service->bind({.address = socket_address(roce::gid_from_ipv4({{127, 0, 0, 2}}), 0, 0)});
  REQUIRE_FALSE(elsewhere);
  CHECK(elsewhere.error() == EADDRNOTAVAIL);

  // Bound, though nobody listens: it is taken all the same, unless both say that they share.
  const auto bound = a.service->bind({.address = local_host()});
  REQUIRE(bound);
  CHECK_FALSE(a.service->bind({.address = local_host(bound->port)}));
  CHECK_FALSE(a.service->bind({.address = local_host(bound->port), .reuse = true}));
  const auto shared = a.service->bind({.address = local_host(), .reuse = true});
  REQUIRE(shared);
  const auto second = a.service->bind({.address = local_host(shared->port), .reuse = true});
  REQUIRE(second);
  REQUIRE(a.service->listen(shared->id, 1, 1) == 0);
  CHECK(a.service->listen(second->id, 1, 1) == EADDRINUSE);
}

TEST_CASE("a port is free again while its old connections still wait for their end") {
  IwarpPair pair;
  // Who closes first keeps the connection in TIME_WAIT.
  REQUIRE(pair.b.service->disconnect(pair.b_id, false) == 0);
  const auto gone = pair.b.next(Kind::disconnected);
  pair.b.service->release(pair.b.listening);
  const auto again = pair.b.service->bind({.address = local_host(port_of(gone.event.local))});
  REQUIRE(again);
  CHECK(pair.b.service->listen(again->id, 1, 1) == 0);
}

TEST_CASE("a wildcard stands for the addresses of the device, all with one port") {
  const TemporaryDirectory directory;
  DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  config.addresses.push_back(roce::gid_from_ipv4({{127, 0, 0, 5}}));
  IwarpNode a(config);
  const auto bound = a.service->bind({.address = socket_address(roce::gid_from_ipv4({}), 0, 0)});
  REQUIRE(bound);
  REQUIRE(a.service->listen(bound->id, 4, 1) == 0);
  const auto answers = [&](std::uint8_t host) {
    const sys::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    SocketAddress to = socket_address(roce::gid_from_ipv4({{127, 0, 0, host}}), bound->port, 0);
    return ::connect(socket.get(), to.get(), to.bytes) == 0;
  };
  CHECK(answers(1));
  CHECK(answers(5));
  CHECK_FALSE(answers(2));
}

TEST_CASE("a connection leaves from the port that was bound for it") {
  const TemporaryDirectory directory;
  const DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  IwarpNode a(config);
  IwarpNode b(config);
  const auto bound = a.service->bind({.address = local_host()});
  REQUIRE(bound);
  REQUIRE(a.service->connect({.remote = local_host(b.listen()),
                              .local = local_host(),
                              .bound = bound->id,
                              .qpn = a.qpn()}));
  CHECK(port_of(b.next(Kind::request).event.remote) == bound->port);
  CHECK(a.service->listen(bound->id, 1, 1) == EINVAL);
}

TEST_CASE("IPv6") {
  const TemporaryDirectory directory;
  DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  const Gid loopback = roce::gid_from_text("::1").value();
  config.addresses = {loopback};
  IwarpNode a(config);
  IwarpNode b(config);
  const auto bound = b.service->bind({.address = socket_address(Gid{}, 0, 0)});
  if (!bound && bound.error() == EADDRNOTAVAIL) {
    WARN("this host has no IPv6");
    return;
  }
  REQUIRE(bound);
  REQUIRE(b.service->listen(bound->id, 4, 1) == 0);
  REQUIRE(a.service->connect({.remote = socket_address(loopback, bound->port, 0),
                              .local = socket_address(loopback, 0, 0),
                              .qpn = a.qpn()}));
  const auto request = b.next(Kind::request);
  CHECK(address_of(*request.event.remote.get()) == loopback);
  REQUIRE(b.service->accept(request.event.id, b.qpn(), {}, {}) == 0);
  a.next(Kind::established);
}

/// Asked one by one: a look into /proc/self/fd would take descriptors that threads have just given
/// back.
std::size_t open_descriptors() {
  constexpr int end = 1024;
  std::size_t count = 0;
  for (int fd = 0; fd < end; ++fd) {
    count += ::fcntl(fd, F_GETFD) != -1 ? 1 : 0;
  }
  return count;
}

TEST_CASE("connections that come and go leave no descriptor behind") {
  const TemporaryDirectory directory;
  const DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  IwarpNode a(config);
  IwarpNode b(config);
  const std::uint16_t port = b.listen();
  std::size_t before = 0;
  for (int round = 0; round < 50; ++round) {
    // What waiting itself needs is there after the first.
    before = round == 1 ? open_descriptors() : before;
    const auto id = a.begin(port);
    const auto asked = b.next(Kind::request).event.id;
    if (round % 5 == 0) {
      REQUIRE(b.service->reject(asked, {}) == 0);
      a.next(Kind::rejected);
      continue;
    }
    REQUIRE(b.service->accept(asked, b.qpn(), {}, {}) == 0);
    b.next(Kind::established);
    a.next(Kind::established);
    REQUIRE((round % 2 == 0 ? a : b).service->disconnect(round % 2 == 0 ? id : asked, false) == 0);
    a.next(Kind::disconnected);
    b.next(Kind::disconnected);
  }
  // An end is told before its descriptor is closed.
  CHECK(eventually([&] { return open_descriptors() <= before; }));
}

TEST_CASE("messages both ways at once, with threads that spin on both sides") {
  IwarpPair pair;
  constexpr std::uint64_t count = 2000;
  constexpr std::uint64_t window = 64;
  // All are there before the first message: who sends to nobody ends the connection.
  for (std::uint64_t i = 0; i < window; ++i) {
    REQUIRE(pair.a.post_recv(i, pair.a.sge(0, 4096)));
    REQUIRE(pair.b.post_recv(i, pair.b.sge(0, 4096)));
  }
  const auto run = [](IwarpNode& node) {
    std::uint64_t posted = 0;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    bool good = true;
    std::array<Completion, 16> completions;
    const bool ended = eventually([&] {
      // No more than the peer has receives for, seen from what it sent: the window is symmetric.
      while (posted < count && posted < sent + 16 && posted < received + window / 2 &&
             node.post_send(WrOpcode::send, posted, node.sge(8192, 1 + posted % 4000), nullptr)) {
        ++posted;
      }
      const std::uint32_t polled = node.poll(completions);
      for (std::uint32_t i = 0; i < polled; ++i) {
        good = good && completions[i].status == WcStatus::success;
        if (completions[i].opcode == WcOpcode::recv) {
          ++received;
          good = good && node.post_recv(received, node.sge(0, 4096));
        } else {
          ++sent;
        }
      }
      return !good || (sent == count && received == count);
    });
    return ended && good;
  };
  bool b_done = false;
  std::thread thread([&] { b_done = run(pair.b); });
  const bool a_done = run(pair.a);
  thread.join();
  CHECK(a_done);
  CHECK(b_done);
}

}  // namespace
}  // namespace verbena::ports
