// iWARP with peers that are no good: slow or silent ones, and such as speak something else. They
// cost nobody but themselves.
#include <array>

#include "ports/iwarp_service.h"
#include "proto/iwarp/fpdu_writer.h"
#include "tests/unit/ports/iwarp_fixture.h"

namespace verbena::ports {
namespace {

using namespace std::chrono_literals;
using namespace test;
using Kind = IwarpEvent::Kind;
using nic::QpState;

TEST_CASE("nobody waits for a silent peer") {
  const TemporaryDirectory directory;
  const DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  IwarpNode a(config);
  IwarpNode b(config, {.request_timeout = 1h});
  const std::uint16_t port = b.listen();
  const PlainPeer silent(port);
  const PlainPeer slow(port);
  REQUIRE(slow.send(ByteView(request_frame()).first(10)));
  a.begin(port);
  REQUIRE(b.service->accept(b.next(Kind::request).event.id, b.qpn(), {}, {}) == 0);
  a.next(Kind::established);
}

TEST_CASE("a silent peer is let go after a while") {
  const TemporaryDirectory directory;
  IwarpNode b(iwarp_config_at(directory / "a.fabric"), {.request_timeout = 20ms});
  const std::uint16_t port = b.listen();
  const PlainPeer silent(port);
  const PlainPeer slow(port);
  // It may have been let go before.
  static_cast<void>(slow.send(ByteView(request_frame()).first(10)));
  CHECK(silent.sees_end());
  CHECK(slow.sees_end());
  CHECK(eventually([&] { return statistics_of(b).handshakes_timed_out == 2; }));
}

TEST_CASE("of those who come and say nothing only the newest are kept") {
  const TemporaryDirectory directory;
  IwarpNode b(iwarp_config_at(directory / "a.fabric"), {.half_open_max = 2});
  const std::uint16_t port = b.listen();
  const PlainPeer first(port);
  const PlainPeer second(port);
  const PlainPeer third(port);
  CHECK(first.sees_end());
  REQUIRE(second.send(request_frame()));
  REQUIRE(third.send(request_frame()));
  b.next(Kind::request);
  b.next(Kind::request);
  CHECK(statistics_of(b).handshakes_evicted == 1);
}

TEST_CASE("a peer that speaks something else is refused") {
  const TemporaryDirectory directory;
  IwarpNode b(iwarp_config_at(directory / "a.fabric"));
  const std::uint16_t port = b.listen();
  const PlainPeer peer(port);
  REQUIRE(peer.send(bytes_from("GET / HTTP/1.1\r\n\r\n")));
  CHECK(peer.sees_end());
  CHECK(eventually([&] { return statistics_of(b).handshakes_refused == 1; }));
  CHECK_FALSE(b.events.take());
}

TEST_CASE("a peer that was gone before anybody looked is refused") {
  const TemporaryDirectory directory;
  DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  // The kernel has forgotten whose it was, which a capture would have to show.
  config.capture = directory / "a.pcapng";
  IwarpNode b(config);
  const std::uint16_t port = b.listen();
  const PlainPeer first(port);
  {
    const auto held = b.events.hold();
    REQUIRE(first.send(request_frame()));
    REQUIRE(eventually([&] { return b.events.calls == 1; }));
    PlainPeer gone(port);
    REQUIRE(gone.send(request_frame()));
    gone.reset();
  }
  b.next(Kind::request);
  CHECK(eventually([&] { return statistics_of(b).handshakes_refused == 1; }));
  CHECK_FALSE(b.events.take());
}

TEST_CASE("a request comes byte by byte, and so does what follows") {
  const TemporaryDirectory directory;
  IwarpNode b(iwarp_config_at(directory / "a.fabric"));
  PlainPeer peer(b.listen());
  const auto request = start_frame(
      {.kind = iwarp::StartKind::request, .crc = true, .enhanced = iwarp::EnhancedParameters{}});
  for (const std::byte& byte : request) {
    REQUIRE(peer.send({&byte, 1}));
  }
  REQUIRE(b.service->accept(b.next(Kind::request).event.id, b.qpn(), {}, {}) == 0);
  CHECK(peer.receive(24).size() == 24);

  // A SEND of eight bytes: RDMAP's and DDP's header, and the message (RFC 5041, 4.2; RFC 5040).
  std::vector<std::byte> ulpdu(18 + 8);
  ulpdu[0] = std::byte{0x41};
  ulpdu[1] = std::byte{0x43};
  ulpdu[13] = std::byte{1};
  iwarp::FpduWriter writer({.crc = true});
  std::vector<std::byte> fpdu(writer.size_of(ulpdu.size()));
  copy_bytes(writer.ulpdu_room(fpdu, ulpdu.size()), ulpdu);
  writer.finish(fpdu, ulpdu.size());
  REQUIRE(b.post_recv(7, b.sge(0, 100)));
  for (const std::byte& byte : fpdu) {
    REQUIRE(peer.send({&byte, 1}));
  }
  const Completion received = b.wait();
  CHECK(received.status == WcStatus::success);
  CHECK(received.byte_len == 8);

  // One that is corrupt is answered by a TERMINATE, and the stream ends.
  fpdu.back() ^= std::byte{1};
  REQUIRE(peer.send(fpdu));
  CHECK(peer.receive().size() > 20);
  CHECK(peer.sees_end());
  peer.reset();
  b.next(Kind::established);
  b.next(Kind::disconnected);
  CHECK(b.state() == QpState::err);
}

TEST_CASE("a peer that gives up before it is answered") {
  const TemporaryDirectory directory;
  IwarpNode b(iwarp_config_at(directory / "a.fabric"));
  const std::uint16_t port = b.listen();
  auto peer = std::make_unique<PlainPeer>(port);
  REQUIRE(peer->send(request_frame()));
  const auto id = b.next(Kind::request).event.id;
  peer->reset();
  // Whoever comes later shows that the reset has been seen.
  const PlainPeer later(port);
  REQUIRE(later.send(request_frame()));
  b.next(Kind::request);
  CHECK(b.service->accept(id, b.qpn(), {}, {}) == ECONNRESET);
  CHECK(b.service->accept(id, b.qpn(), {}, {}) == EINVAL);
  CHECK(b.state() == QpState::init);
}

TEST_CASE("a reset in the middle of a message ends the queue pair") {
  const TemporaryDirectory directory;
  IwarpNode b(iwarp_config_at(directory / "a.fabric"));
  PlainPeer peer(b.listen());
  REQUIRE(peer.send(request_frame()));
  REQUIRE(b.service->accept(b.next(Kind::request).event.id, b.qpn(), {}, {}) == 0);
  b.next(Kind::established);
  REQUIRE(b.post_recv(7, b.sge(0, 100)));
  REQUIRE(peer.send(bytes_from("\x01\x00\x41")));
  peer.reset();
  b.next(Kind::disconnected);
  CHECK(b.wait().status == WcStatus::wr_flush_err);
  CHECK(b.state() == QpState::err);
  CHECK(statistics_of(b).streams_lost == 1);
}

TEST_CASE("a responder that never replies is given up") {
  const TemporaryDirectory directory;
  DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  IwarpLimits limits;
  SECTION("after the device's time") { limits.reply_timeout = 200ms; }
  SECTION("or after the configuration's, if that is shorter") { config.connect_timeout = 200ms; }
  IwarpNode a(config, limits);
  auto listener = sys::tcp_socket(AF_INET);
  REQUIRE(listener);
  // The kernel accepts, and nobody ever looks.
  REQUIRE(sys::listen(listener->get(), 4) == 0);
  a.begin(port_of(sys::local_address(listener->get())));
  CHECK(a.next(Kind::unreachable).event.status == -ETIMEDOUT);
  CHECK(a.state() == QpState::init);
}

TEST_CASE("a peer that doesn't read holds its own messages up and nothing else") {
  const TemporaryDirectory directory;
  IwarpNode b(iwarp_config_at(directory / "a.fabric"), {}, 1 << 20);
  const PlainPeer peer(b.listen());
  REQUIRE(peer.send(request_frame()));
  REQUIRE(b.service->accept(b.next(Kind::request).event.id, b.qpn(), {}, {}) == 0);
  b.next(Kind::established);
  // Two zero-length SENDs would want receives; a WRITE of nothing is an FPDU that shows us ready.
  std::vector<std::byte> ulpdu(14);
  ulpdu[0] = std::byte{0xC1};
  ulpdu[1] = std::byte{0x40};
  iwarp::FpduWriter writer({.crc = true});
  std::vector<std::byte> fpdu(writer.size_of(ulpdu.size()));
  copy_bytes(writer.ulpdu_room(fpdu, ulpdu.size()), ulpdu);
  writer.finish(fpdu, ulpdu.size());
  REQUIRE(peer.send(fpdu));

  constexpr int messages = 64;
  SendWr wr;
  wr.opcode = WrOpcode::rdma_write;
  wr.signaled = true;
  const Sge all = b.sge(0, 1 << 20);
  wr.sges = {&all, 1};
  for (int i = 0; i < messages; ++i) {
    REQUIRE(b.engine->post_send(
        [&](nic::Nic& nic, Time now) { return nic.post_send(now, *b.qp, wr).has_value(); }));
  }
  int completed = 0;
  std::array<Completion, 16> completions;
  const auto collect = [&] { completed += static_cast<int>(b.poll(completions)); };
  // The kernel takes some megabytes, and then no more.
  int quiet = 0;
  REQUIRE(eventually([&] {
    const int before = completed;
    collect();
    quiet = completed == before ? quiet + 1 : 0;
    return quiet > 1000;
  }));
  CHECK(completed < messages);
  REQUIRE(eventually([&] {
    collect();
    return completed == messages || (peer.has_input() && peer.receive(1 << 20).empty());
  }));
  CHECK(completed == messages);
}

}  // namespace
}  // namespace verbena::ports
