// iWARP with peers that are plain sockets: what a connection is told whatever byte its handshake
// ends at, what the initiator sends first, how its FPDUs fill segments, and how long it waits for a
// peer that does nothing.

#include <algorithm>
#include <array>

#include "proto/iwarp/fpdu_receiver.h"
#include "proto/iwarp/segment.h"
#include "proto/iwarp/terminate.h"
#include "tests/unit/ports/iwarp_fixture.h"

namespace verbena::ports {
namespace {

using namespace std::chrono_literals;
using namespace test;
using iwarp::RtrType;
using Kind = IwarpEvent::Kind;
using nic::QpState;

std::vector<std::byte> reply_frame(const iwarp::EnhancedParameters& parameters,
                                   ByteView private_data = {}) {
  return start_frame({.kind = iwarp::StartKind::reply,
                      .crc = true,
                      .enhanced = parameters,
                      .private_data = private_data});
}

/// A host that has accepted the connection of `a`, and heard its request.
struct Asked {
  explicit Asked(IwarpNode& a, const PlainHost& host)
      : id(a.begin(host.port())), peer(host.accept()) {
    const std::vector<std::byte> bytes = peer.receive();
    ByteView stream = bytes;
    const auto taken = reader.take(stream);
    REQUIRE(taken);
    REQUIRE(*taken);
    request = **taken;
  }

  IwarpConnectionId id;
  PlainPeer peer;
  iwarp::StartFrameReader reader{iwarp::StartKind::request};
  iwarp::StartFrame request;
};

/// The stream of a peer, FPDU by FPDU.
class Fpdus {
 public:
  explicit Fpdus(const PlainPeer& peer) : peer_(peer) {}

  /// The next, or nothing at the end of the stream.
  std::optional<iwarp::Fpdu> next() {
    for (;;) {
      const auto fpdu = receiver_.next(rest_);
      REQUIRE(fpdu);
      if (*fpdu) {
        return **fpdu;
      }
      bytes_ = peer_.receive(std::size_t{256} << 10);
      rest_ = bytes_;
      if (bytes_.empty()) {
        return std::nullopt;
      }
    }
  }

 private:
  const PlainPeer& peer_;
  iwarp::FpduReceiver receiver_{{.markers = false, .crc = true}};
  std::vector<std::byte> bytes_;
  ByteView rest_;
};

void send_write(IwarpNode& node, std::size_t bytes) {
  REQUIRE(node.post_send(WrOpcode::rdma_write, 1, node.sge(0, bytes), &node));
}

// --- Handshakes that end early

enum class Ending : std::uint8_t { fin, reset, silence };

TEST_CASE("a reply that ends at any of its bytes is told by one event") {
  const Ending ending = GENERATE(Ending::fin, Ending::reset, Ending::silence);
  const TemporaryDirectory directory;
  IwarpLimits limits;
  if (ending == Ending::silence) {
    limits.reply_timeout = 20ms;
  }
  IwarpNode a(iwarp_config_at(directory / "a.fabric"), limits);
  const PlainHost host;
  host.listen();
  const std::array data{std::byte{1}, std::byte{2}, std::byte{3}};
  const auto reply = reply_frame({.depths = {.ird = 1, .ord = 1}}, data);
  for (std::size_t bytes = 0; bytes < reply.size(); ++bytes) {
    INFO(bytes << " bytes");
    Asked asked(a, host);
    const bool is_said = bytes == 0 || asked.peer.send(ByteView(reply).first(bytes));
    REQUIRE((is_said || ending == Ending::silence));  // Who is slow is given up before.
    if (ending == Ending::fin) {
      asked.peer.end();
    } else if (ending == Ending::reset) {
      asked.peer.reset();
    }
    const SeenEvent told = a.next(ending == Ending::silence ? Kind::unreachable : Kind::rejected);
    CHECK(told.event.id == asked.id);
    CHECK(told.event.status == (ending == Ending::silence ? -ETIMEDOUT : -ECONNRESET));
    CHECK(a.state() == QpState::init);
  }
  CHECK_FALSE(a.events.take());
}

TEST_CASE("a reply with any byte of its key wrong is told by one event") {
  const TemporaryDirectory directory;
  IwarpNode a(iwarp_config_at(directory / "a.fabric"));
  const PlainHost host;
  host.listen();
  constexpr std::size_t key_bytes = 16;
  for (std::size_t i = 0; i < key_bytes; ++i) {
    INFO("byte " << i);
    Asked asked(a, host);
    auto reply = reply_frame({});
    reply[i] ^= std::byte{0x20};
    REQUIRE(asked.peer.send(reply));
    const SeenEvent told = a.next(Kind::failed);
    CHECK(told.event.id == asked.id);
    CHECK(told.event.status == -EPROTO);
    CHECK(asked.peer.sees_end());
  }
  CHECK_FALSE(a.events.take());
}

TEST_CASE("a request that ends at any of its bytes is no event, and is counted once") {
  const Ending ending = GENERATE(Ending::fin, Ending::reset, Ending::silence);
  const TemporaryDirectory directory;
  const DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  IwarpLimits limits;
  if (ending == Ending::silence) {
    limits.request_timeout = 20ms;
  }
  IwarpNode b(config, limits);
  const std::uint16_t port = b.listen();
  const auto request = request_frame();
  for (std::size_t bytes = 0; bytes < request.size(); ++bytes) {
    PlainPeer peer(port);
    const bool is_said = bytes == 0 || peer.send(ByteView(request).first(bytes));
    REQUIRE((is_said || ending == Ending::silence));  // Who is slow is given up before.
    if (ending == Ending::fin) {
      peer.end();
    } else if (ending == Ending::reset) {
      peer.reset();
      continue;
    }
    CHECK(peer.sees_end());
  }
  CHECK(eventually([&] {
    const PortStatistics seen = b.engine->port_statistics();
    return (ending == Ending::silence ? seen.handshakes_timed_out : seen.handshakes_refused) ==
           request.size();
  }));
  CHECK_FALSE(b.events.take());
  const PlainPeer whole(port);
  REQUIRE(whole.send(request));
  b.next(Kind::request);
}

TEST_CASE("who is refused has time to read why, and to close first") {
  const TemporaryDirectory directory;
  const bool by_program = GENERATE(true, false);
  DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  config.mpa.crc = by_program ? iwarp::CrcPolicy::ask : iwarp::CrcPolicy::refuse;
  IwarpNode b(config, {.leave_patience = 1h, .half_open_max = 1});
  const std::uint16_t port = b.listen();
  const auto request = start_frame(
      {.kind = iwarp::StartKind::request, .crc = true, .enhanced = iwarp::EnhancedParameters{}});
  const auto come = [&] {
    auto peer = std::make_unique<PlainPeer>(port);
    REQUIRE(peer->send(request));
    if (by_program) {
      REQUIRE(b.service->reject(b.next(Kind::request).event.id, {}) == 0);
    }
    CHECK(peer->receive(24).size() == 24);
    return peer;
  };
  const auto first = come();
  CHECK_FALSE(first->has_input());
  // As many as there may be of them stay.
  const auto second = come();
  CHECK(first->sees_end());
  CHECK_FALSE(second->has_input());
  second->end();
  CHECK(second->sees_end());
  CHECK_FALSE(b.events.take());
}

TEST_CASE("who is refused and doesn't close is closed") {
  const TemporaryDirectory directory;
  IwarpNode b(iwarp_config_at(directory / "a.fabric"), {.leave_patience = 20ms});
  const PlainPeer peer(b.listen());
  REQUIRE(peer.send(request_frame()));
  REQUIRE(b.service->reject(b.next(Kind::request).event.id, {}) == 0);
  CHECK(peer.receive(24).size() == 24);
  CHECK(peer.sees_end());
}

// --- Who listens later, or not at all

TEST_CASE("where nobody listens yet it is tried again, from the same port") {
  const TemporaryDirectory directory;
  DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  config.capture = directory / "a.pcapng";
  IwarpNode a(config, {.listener_patience = 1h});
  const PlainHost host;
  const auto bound = a.service->bind({.address = local_host()});
  REQUIRE(bound);
  // It is refused before this returns: packets to this host don't linger.
  REQUIRE(a.service->connect({.remote = local_host(host.port()),
                              .local = local_host(),
                              .bound = bound->id,
                              .qpn = a.qpn(),
                              .cookie = 2}));
  CHECK_FALSE(a.events.take());
  host.listen();
  const PlainPeer peer = host.accept();
  CHECK_FALSE(peer.receive().empty());
  REQUIRE(peer.send(reply_frame({})));
  CHECK(port_of(a.next(Kind::established).event.local) == bound->port);
}

TEST_CASE("where nobody listens, and goes on not to, is told after a while") {
  const TemporaryDirectory directory;
  IwarpNode a(iwarp_config_at(directory / "a.fabric"), {.listener_patience = 20ms});
  const PlainHost host;
  const auto id = a.begin(host.port());
  const SeenEvent told = a.next(Kind::rejected);
  CHECK(told.event.id == id);
  CHECK(told.event.status == -ECONNREFUSED);
  CHECK_FALSE(a.events.take());
}

TEST_CASE("who can't listen on one of several addresses listens on none") {
  const TemporaryDirectory directory;
  DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  const Gid second = roce::gid_from_ipv4({{127, 0, 0, 5}});
  config.addresses.push_back(second);
  IwarpNode a(config);
  const auto bound =
      a.service->bind({.address = socket_address(roce::gid_from_ipv4({}), 0, 0), .reuse = true});
  REQUIRE(bound);
  const auto other =
      a.service->bind({.address = socket_address(second, bound->port, 0), .reuse = true});
  REQUIRE(other);
  REQUIRE(a.service->listen(other->id, 4, 1) == 0);

  CHECK(a.service->listen(bound->id, 4, 1) == EADDRINUSE);
  const sys::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress to = local_host(bound->port);
  CHECK(::connect(socket.get(), to.get(), to.bytes) != 0);
  // It is released.
  CHECK(a.service->listen(bound->id, 4, 1) == EINVAL);
  CHECK(a.service->bind({.address = local_host(bound->port)}));
}

// --- What an initiator sends first (C-5 52)

TEST_CASE("the RTR is what the reply has chosen of what was offered") {
  const TemporaryDirectory directory;
  DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  config.mpa.peer_to_peer = true;
  IwarpNode a(config);
  const PlainHost host;
  host.listen();
  Asked asked(a, host);
  REQUIRE(asked.request.enhanced);
  CHECK(asked.request.enhanced->peer_to_peer);
  CHECK(asked.request.enhanced->rtr == iwarp::RtrTypes{RtrType::write, RtrType::read});

  const bool is_read = GENERATE(true, false);
  REQUIRE(asked.peer.send(reply_frame(
      {.depths = {.ird = 1, .ord = 1},
       .peer_to_peer = true,
       .rtr = is_read ? iwarp::RtrTypes{RtrType::read} : iwarp::RtrTypes{RtrType::write}})));
  a.next(Kind::established);
  Fpdus fpdus(asked.peer);  // It holds what the views show.
  const auto first = fpdus.next();
  REQUIRE(first);
  CHECK(first->ulpdu.size() == (is_read ? 46 : 14));
  const auto segment = iwarp::SegmentView::parse(first->ulpdu);
  REQUIRE(segment);
  CHECK(segment->opcode() ==
        (is_read ? iwarp::RdmapOpcode::read_request : iwarp::RdmapOpcode::write));
}

TEST_CASE("a reply that chooses an RTR that wasn't offered is answered by a TERMINATE") {
  const TemporaryDirectory directory;
  DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  config.mpa.peer_to_peer = true;
  IwarpNode a(config);
  const PlainHost host;
  host.listen();
  Asked asked(a, host);
  REQUIRE(asked.peer.send(reply_frame(
      {.depths = {.ird = 1, .ord = 1}, .peer_to_peer = true, .rtr = {RtrType::zero_length_fpdu}})));
  CHECK(a.next(Kind::failed).event.id == asked.id);
  Fpdus fpdus(asked.peer);
  const auto said = fpdus.next();
  REQUIRE(said);
  const auto segment = iwarp::SegmentView::parse(said->ulpdu);
  REQUIRE(segment);
  REQUIRE(segment->opcode() == iwarp::RdmapOpcode::terminate);
  CHECK(iwarp::find_reason(segment->rdmap<iwarp::TerminateHeader>().to_code()) ==
        iwarp::TerminateReason::llp_no_matching_rtr);
  CHECK_FALSE(fpdus.next());
  CHECK_FALSE(a.events.take());
}

// --- FPDUs as large as segments (C-5 59)

TEST_CASE("each FPDU of long messages fills a segment, but for the last of each") {
  constexpr int segment_offered = 1000;
  constexpr int timestamp_option_bytes = 12;
  const bool is_small = GENERATE(true, false);
  constexpr std::size_t messages = 4;
  constexpr std::size_t message_bytes = 1 << 20;
  const TemporaryDirectory directory;
  IwarpNode a(iwarp_config_at(directory / "a.fabric"), {}, message_bytes);
  const PlainHost host;
  if (is_small) {
    host.offer_segments_of(segment_offered);
  }
  host.listen();
  Asked asked(a, host);
  REQUIRE(asked.peer.send(reply_frame({.depths = {.ird = 1, .ord = 1}})));
  a.next(Kind::established);
  for (std::size_t i = 0; i < messages; ++i) {
    send_write(a, message_bytes);
  }

  Fpdus fpdus(asked.peer);
  std::size_t full_bytes = 0;
  for (std::size_t message = 0; message < messages; ++message) {
    for (std::size_t payload = 0; payload < message_bytes;) {
      const auto fpdu = fpdus.next();
      REQUIRE(fpdu);
      const auto segment = iwarp::SegmentView::parse(fpdu->ulpdu);
      REQUIRE(segment);
      payload += segment->payload().size();
      full_bytes = full_bytes == 0 ? fpdu->stream_bytes : full_bytes;
      REQUIRE((payload == message_bytes || fpdu->stream_bytes == full_bytes));
    }
  }
  if (is_small) {
    // A whole number of words, of what the kernel's options leave.
    CHECK(full_bytes <= segment_offered);
    CHECK(full_bytes > segment_offered - timestamp_option_bytes - 4);
  } else {
    constexpr std::size_t loopback_segment_min = 16 << 10;
    CHECK(full_bytes > loopback_segment_min);
  }
}

// --- Ends in order, with a peer that does nothing

TEST_CASE("who ends in order gives a peer up that doesn't read, or doesn't answer") {
  const bool is_read = GENERATE(false, true);
  const TemporaryDirectory directory;
  constexpr std::size_t memory_bytes = 1 << 20;
  IwarpNode a(iwarp_config_at(directory / "a.fabric"), {.close_patience = 1s}, memory_bytes);
  const PlainHost host;
  host.listen();
  const Asked asked(a, host);
  REQUIRE(asked.peer.send(reply_frame({.depths = {.ird = 4, .ord = 4}})));
  a.next(Kind::established);
  // More than the kernels of both sides take.
  constexpr int writes = 64;
  for (int i = 0; i < (is_read ? 1 : writes); ++i) {
    REQUIRE(a.post_send(is_read ? WrOpcode::rdma_read : WrOpcode::rdma_write, 1,
                        a.sge(0, memory_bytes), &a));
  }
  REQUIRE(a.service->disconnect(asked.id, false) == 0);
  CHECK(a.state() == QpState::sqd);
  CHECK(a.next(Kind::disconnected).event.id == asked.id);
  CHECK(a.state() == QpState::err);
  CHECK(a.engine->port_statistics().streams_lost == 1);
  WcStatus last = WcStatus::success;
  for (int i = 0; i < (is_read ? 1 : writes); ++i) {
    last = a.wait().status;
  }
  CHECK(last == WcStatus::wr_flush_err);
  CHECK(std::ranges::count(a.listener.events(), nic::AsyncEventType::qp_fatal) == 1);
  CHECK_FALSE(a.events.take());
}

}  // namespace
}  // namespace verbena::ports
