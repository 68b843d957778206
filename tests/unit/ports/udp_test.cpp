// RoCE v2 through UDP sockets, on loopback addresses: what the kernel cuts and numbers on one side
// comes out as whole frames with a right ICRC on the other.
#include <array>

#include "base/prng.h"
#include "ports/udp_batch.h"
#include "ports/udp_port.h"
#include "ports/udp_segments.h"
#include "proto/ib_bth/packet.h"
#include "proto/roce/decap.h"
#include "tests/unit/ports/support.h"
#include "tests/unit/ports/udp_frames.h"

namespace verbena::ports {
namespace {

using test::address;
using test::own_address;
using test::send_frame;
using test::send_frame_bytes;
using test::Way;
using test::write_send;

constexpr std::size_t frame_bytes = 42 + 1000;

UdpDestination destination(const char* peer = "192.0.2.1") {
  return {.socket = 0, .peer = address(peer), .traffic_class = 0, .hop_limit = 64};
}

void put(UdpBatch& batch, std::size_t bytes) {
  static_cast<void>(batch.reserve(destination(), bytes));
  batch.commit();
}

class Collector final : public NetworkFrameHandler {
 public:
  void on_network_frame(const NetworkFrame& frame) override {
    frames.emplace_back(frame.bytes.begin(), frame.bytes.end());
    good += frame.icrc_is_good ? 1 : 0;
    routes.push_back(frame.route);
  }
  void on_aside(ByteView, FrameWay) override {}
  std::vector<FrameRoute> routes;
  std::vector<std::vector<std::byte>> frames;
  std::size_t good = 0;
};

/// Two ports on loopback addresses of this host.
struct Ends {
  std::unique_ptr<UdpPort> a = open(own_address(1));
  std::unique_ptr<UdpPort> b = open(own_address(2));

  static std::unique_ptr<UdpPort> open(const Gid& address) {
    return *UdpPort::open(std::array{InterfaceAddress{.address = address}});
  }

  void send(const Way& way, std::size_t data_bytes, std::uint32_t psn) {
    const MutableBytes frame = a->reserve(way.route(), send_frame_bytes(data_bytes, way));
    REQUIRE(!frame.empty());
    write_send(way, frame, data_bytes, a->way_fields(), psn);
    a->commit({});
  }
};

std::uint32_t psn_of(ByteView frame) {
  return ib::PacketView::parse(roce::parse_frame(frame)->transport)->psn().value();
}

}  // namespace

// --- What leaves in one call

TEST_CASE("frames of one size leave together, numbered one by one") {
  UdpBatch batch;
  for (std::size_t i = 0; i < 10; ++i) {
    REQUIRE(batch.takes(destination(), frame_bytes));
    CHECK(batch.identification() == i);
    put(batch, frame_bytes);
  }
  CHECK(batch.frames() == 10);
  CHECK(batch.segment_bytes() == 1000);
  CHECK(batch.payloads().back().iov_len == 1000);
}

TEST_CASE("a shorter frame is the last of its batch, a longer one begins another") {
  UdpBatch batch;
  put(batch, frame_bytes);
  CHECK(!batch.takes(destination(), frame_bytes + 4));
  REQUIRE(batch.takes(destination(), frame_bytes - 4));
  put(batch, frame_bytes - 4);
  CHECK(!batch.takes(destination(), frame_bytes));
  CHECK(!batch.takes(destination(), frame_bytes - 4));
  batch.clear();
  CHECK(batch.takes(destination(), frame_bytes));
  CHECK(batch.identification() == 0);
}

TEST_CASE("peers and traffic classes don't share a batch") {
  UdpBatch batch;
  put(batch, frame_bytes);
  CHECK(!batch.takes(destination("192.0.2.2"), frame_bytes));
  UdpDestination marked = destination();
  marked.traffic_class = 2;
  CHECK(!batch.takes(marked, frame_bytes));
}

TEST_CASE("a batch holds as many frames and bytes as the kernel takes") {
  UdpBatch small;
  while (small.takes(destination(), 100)) {
    put(small, 100);
  }
  CHECK(small.frames() == UdpBatch::frames_max);
  UdpBatch large;
  while (large.takes(destination(), 42 + 4128)) {
    put(large, 42 + 4128);
  }
  CHECK(large.frames() == UdpBatch::payload_bytes_max / 4128);
}

TEST_CASE("Ethernet padding stays out of the datagram") {
  UdpBatch batch;
  const MutableBytes frame = batch.reserve(destination(), send_frame_bytes(0));
  REQUIRE(frame.size() == 60);
  write_send({}, frame, 0, {});
  batch.commit();
  CHECK(batch.segment_bytes() == 16);
  CHECK(!batch.takes(destination(), send_frame_bytes(0)));
}

TEST_CASE("a reservation that is not committed leaves no trace") {
  UdpBatch batch;
  static_cast<void>(batch.reserve(destination(), frame_bytes));
  CHECK(batch.empty());
  CHECK(batch.takes(destination("192.0.2.2"), 2 * frame_bytes));
}

TEST_CASE("where nobody cuts, each frame travels alone") {
  UdpBatch batch;
  batch.stop_cutting();
  put(batch, frame_bytes);
  CHECK(!batch.takes(destination(), frame_bytes));
}

TEST_CASE("an IPv6 frame leaves without its 62 bytes of headers, and by its flow label") {
  UdpBatch batch;
  UdpDestination to = destination("fd00::2");
  to.flow_label = 7;
  static_cast<void>(batch.reserve(to, 62 + 1000));
  batch.commit();
  CHECK(batch.segment_bytes() == 1000);
  CHECK(batch.takes(to, 62 + 1000));
  CHECK(!batch.takes(to, 62 + 1001));
  CHECK(!batch.takes(destination("fd00::2"), 62 + 1000));
}

// --- What came in one piece

TEST_CASE("a joined arrival becomes the frames that were sent, identifications included") {
  UdpSegments segments;
  const Way way;
  // The sender numbered from 500; what it sent lies payload behind payload.
  std::vector<std::vector<std::byte>> sent;
  std::size_t used = 0;
  for (std::uint16_t i = 0; i < 5; ++i) {
    auto& frame = sent.emplace_back(send_frame_bytes(i < 4 ? 256 : 64));
    write_send(way, frame, i < 4 ? 256 : 64, {.identification = std::uint16_t(500 + i)}, i);
    copy_bytes(segments.room().subspan(used), ByteView(frame).subspan(42));
    used += frame.size() - 42;
  }
  segments.begin({.peer = way.from,
                  .peer_port = 0xC000,
                  .traffic_class = 0,
                  .hop_limit = 64,
                  .bytes = used,
                  .segment_bytes = sent[0].size() - 42},
                 way.to);
  for (std::uint16_t i = 0; i < 5; ++i) {
    REQUIRE(segments.pending());
    const auto frame = segments.next();
    CHECK(frame.icrc_is_good);
    const auto parsed = roce::parse_frame(frame.bytes);
    REQUIRE(parsed);
    CHECK(parsed->identification == 500 + i);
    CHECK(parsed->icrc_is_good());
    CHECK(ByteView(frame.bytes).size() == sent[i].size());
    CHECK(psn_of(frame.bytes) == i);
  }
  CHECK(!segments.pending());
}

TEST_CASE("a joined arrival over IPv6 becomes the frames that were sent, headers included") {
  UdpSegments segments;
  const Way way{.from = address("fe80::1"), .to = address("ff0e::7"), .traffic_class = 0x4A};
  std::vector<std::vector<std::byte>> sent;
  std::size_t used = 0;
  for (std::uint32_t i = 0; i < 3; ++i) {
    sent.push_back(send_frame(way, i < 2 ? 256 : 64, i));
    const ByteView payload = ByteView(sent.back()).subspan(62);
    copy_bytes(segments.room().subspan(used), payload);
    used += payload.size();
  }
  segments.begin({.peer = way.from,
                  .peer_port = 0xC000,
                  .traffic_class = 0x4A,
                  .hop_limit = 64,
                  .flow_label = 0x1'2345,
                  .bytes = used,
                  .segment_bytes = sent[0].size() - 62},
                 way.to);
  for (std::uint32_t i = 0; i < 3; ++i) {
    REQUIRE(segments.pending());
    const auto frame = segments.next();
    CHECK(frame.icrc_is_good);
    CHECK(frame.route.source == way.from);
    CHECK(frame.route.destination == way.to);
    CHECK(frame.route.destination_qpn == way.qpn);
    const auto parsed = roce::parse_frame(frame.bytes);
    REQUIRE(parsed);
    CHECK(parsed->version == roce::Version::v2_ipv6);
    CHECK(parsed->traffic_class == 0x4A);
    CHECK(parsed->flow_label == 0x1'2345);
    CHECK(parsed->destination_mac.to_text() == "33:33:00:00:00:07");
    CHECK(frame.bytes.size() == sent[i].size());
    CHECK(psn_of(frame.bytes) == i);
  }
  CHECK(!segments.pending());
}

TEST_CASE("a corrupt segment is told, and the next one is not affected") {
  UdpSegments segments;
  const auto [from, to, headers] = GENERATE(table<const char*, const char*, std::size_t>(
      {{"192.0.2.1", "192.0.2.2", 42}, {"fd00::1", "fd00::2", 62}}));
  const Way way{.from = address(from), .to = address(to)};
  const auto frame = send_frame(way, 128);
  const ByteView payload = ByteView(frame).subspan(headers);
  copy_bytes(segments.room(), payload);
  copy_bytes(segments.room().subspan(payload.size()), payload);
  segments.room()[60] ^= std::byte{0x10};
  segments.begin({.peer = way.from,
                  .peer_port = 0xC000,
                  .hop_limit = 64,
                  .bytes = 2 * payload.size(),
                  .segment_bytes = payload.size()},
                 way.to);
  CHECK(!segments.next().icrc_is_good);
  CHECK(segments.next().icrc_is_good);
}

TEST_CASE("datagrams that are too short are frames that nobody can read") {
  UdpSegments segments;
  const auto [from, to] = GENERATE(
      table<const char*, const char*>({{"192.0.2.1", "192.0.2.2"}, {"fd00::1", "fd00::2"}}));
  for (const std::size_t bytes : {0, 1, 15}) {
    segments.begin({.peer = address(from), .bytes = bytes, .segment_bytes = 1 + bytes},
                   address(to));
    REQUIRE(segments.pending());
    const auto frame = segments.next();
    CHECK(!frame.icrc_is_good);
    CHECK(!roce::parse_frame(frame.bytes));
    CHECK(!segments.pending());
  }
}

// --- Through the kernel

TEST_CASE("frames of any size arrive through sockets, with a right ICRC") {
  Ends ends;
  std::uint32_t psn = 0;
  for (const std::size_t data_bytes : {0, 4, 8, 256, 1024, 4096}) {
    for (int i = 0; i < 7; ++i) {
      ends.send({.traffic_class = 2}, data_bytes, psn++);
    }
  }
  ends.a->flush();
  Collector received;
  while (ends.b->poll_receive(received, 64) > 0) {
  }
  REQUIRE(received.frames.size() == psn);
  CHECK(received.good == psn);
  for (std::uint32_t i = 0; i < psn; ++i) {
    const auto parsed = roce::parse_frame(received.frames[i]);
    REQUIRE(parsed);
    CHECK(parsed->icrc_is_good());
    CHECK(parsed->traffic_class == 2);
    CHECK(parsed->hop_limit == 64);
    CHECK(psn_of(received.frames[i]) == i);
  }
}

TEST_CASE("a receiver takes no more frames than it asks for") {
  Ends ends;
  for (std::uint32_t i = 0; i < 20; ++i) {
    ends.send({}, 256, i);
  }
  ends.a->flush();
  Collector received;
  CHECK(ends.b->poll_receive(received, 8) == 8);
  CHECK(ends.b->pending());
  CHECK(ends.b->poll_receive(received, 64) == 12);
  CHECK(received.good == 20);
}

TEST_CASE("frames from an address that the device has not, and to no host, are lost and counted") {
  Ends ends;
  ends.send({.from = own_address(3)}, 64, 0);
  ends.a->flush();
  PortStatistics statistics;
  ends.a->add_to(statistics);
  CHECK(statistics.frames_lost == 1);
  // A class E address: the kernel has no way there.
  ends.send({.to = address("255.255.255.255")}, 64, 0);
  ends.a->flush();
  ends.a->add_to(statistics);
  CHECK(statistics.frames_refused == 1);
}

TEST_CASE("a group of the interface's scope doesn't leave the host") {
  CHECK(!leaves_host(address("ff01::1")));
  CHECK(!leaves_host(address("ff11:0:2:c985::")));
  CHECK(leaves_host(address("ff02::1")));
  CHECK(leaves_host(address("ff0e::1")));
  CHECK(leaves_host(address("239.1.2.3")));
}

TEST_CASE("a group is reached from an address of its kind only") {
  Ends ends;
  const Gid own = own_address(1);
  CHECK(ends.a->reaches_group({.source = own, .destination = address("239.0.0.1")}));
  CHECK(!ends.a->reaches_group({.source = own, .destination = address("ff0e::1")}));
  CHECK(!ends.a->reaches_group({.source = own_address(3), .destination = address("239.0.0.1")}));
}

TEST_CASE("datagrams of any bytes do no harm") {
  UdpSegments segments;
  Prng prng(GENERATE(range(0U, 200U)));
  const bool is_ipv4 = prng.below(2) == 0;
  const std::size_t bytes = prng.below(3000);
  for (std::byte& byte : segments.room().first(bytes)) {
    byte = static_cast<std::byte>(prng.next());
  }
  segments.begin({.peer = address(is_ipv4 ? "192.0.2.1" : "fd00::1"),
                  .peer_port = static_cast<std::uint16_t>(prng.next()),
                  .bytes = bytes,
                  .segment_bytes = 1 + prng.below(1500)},
                 address(is_ipv4 ? "192.0.2.2" : "fd00::2"));
  std::size_t seen = 0;
  while (segments.pending()) {
    const auto frame = segments.next();
    seen += frame.bytes.size() - (is_ipv4 ? 42 : 62);
    CHECK((!frame.icrc_is_good || roce::parse_frame(frame.bytes)));
  }
  CHECK(seen == bytes);
}

TEST_CASE("an address that this host has not is refused in words") {
  const auto port = UdpPort::open(std::array{InterfaceAddress{.address = address("192.0.2.77")}});
  REQUIRE(!port);
  CHECK_THAT(port.error(), Catch::Contains("4791 of 192.0.2.77"));
  CHECK_THAT(port.error(), Catch::Contains("gone from this host"));
}

TEST_CASE("sockets that the program closed are made anew") {
  Ends ends;
  REQUIRE(::close(ends.b->descriptors()[0]) == 0);
  CHECK(ends.b->repair());
  CHECK(!ends.b->repair());
  ends.send({}, 64, 5);
  ends.a->flush();
  Collector received;
  CHECK(ends.b->poll_receive(received, 64) == 1);
}

}  // namespace verbena::ports
