// What a capture of an iWARP device shows: a TCP connection whose segments are made up around the
// real bytes.
#include <map>

#include "pcap/reader.h"
#include "proto/inet/tcp/frame.h"
#include "tests/unit/ports/iwarp_fixture.h"

namespace verbena::ports {
namespace {

using namespace test;
using inet::TcpHeader;
using Kind = IwarpEvent::Kind;

/// One direction of a connection, put together from the segments of a capture.
struct Way {
  std::optional<std::uint32_t> next;
  std::string flags;
  std::vector<std::byte> bytes;
  bool is_continuous = true;
};

/// By the port that the segments come from.
std::map<std::uint16_t, Way> ways_of(const std::string& path) {
  std::map<std::uint16_t, Way> ways;
  auto reader = pcap::Reader::open(path);
  REQUIRE(reader);
  for (;;) {
    const auto packet = reader->next();
    REQUIRE(packet);
    if (!*packet) {
      return ways;
    }
    const auto tcp = inet::parse_tcp_frame((*packet)->frame);
    REQUIRE(tcp);
    CHECK(tcp->checksum_is_good());
    const TcpHeader& header = tcp->segment.header;
    Way& way = ways[header.source_port.value()];
    way.is_continuous =
        way.is_continuous && header.sequence.value() == way.next.value_or(header.sequence.value());
    const bool counts = header.has(TcpHeader::flag_syn) || header.has(TcpHeader::flag_fin);
    way.next = header.sequence.value() + static_cast<std::uint32_t>(tcp->segment.payload.size()) +
               (counts ? 1 : 0);
    way.bytes.insert(way.bytes.end(), tcp->segment.payload.begin(), tcp->segment.payload.end());
    for (const auto& [flag, letter] : {std::pair(TcpHeader::flag_syn, 'S'),
                                       {TcpHeader::flag_fin, 'F'},
                                       {TcpHeader::flag_rst, 'R'}}) {
      if (header.has(flag)) {
        way.flags += letter;
      }
    }
  }
}

TEST_CASE("a capture has the whole stream of each direction, from SYN to FIN") {
  const TemporaryDirectory directory;
  DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  std::uint16_t port = 0;
  constexpr std::size_t written_bytes = 3 << 20;
  {
    config.capture = directory / "a.pcapng";
    IwarpNode a(config, {}, written_bytes);
    IwarpNode target(iwarp_config_at(directory / "a.fabric"), {}, written_bytes);
    port = target.listen();
    const auto id = a.begin(port);
    REQUIRE(target.service->accept(target.next(Kind::request).event.id, target.qpn(), {}, {}) == 0);
    a.next(Kind::established);
    REQUIRE(a.post_send(WrOpcode::rdma_write, 1, a.sge(0, written_bytes), &target));
    REQUIRE(a.wait().status == WcStatus::success);
    REQUIRE(a.service->disconnect(id, false) == 0);
    a.next(Kind::disconnected);
  }
  auto ways = ways_of(config.capture);
  REQUIRE(ways.size() == 2);
  const Way target = ways[port];
  ways.erase(port);
  const Way& source = ways.begin()->second;
  CHECK(source.flags == "SF");
  CHECK(target.flags == "SF");
  CHECK(source.is_continuous);
  CHECK(target.is_continuous);
  CHECK(source.bytes.size() > written_bytes);
  // The reply: a header and the enhanced parameters.
  CHECK(target.bytes.size() == 24);
}

TEST_CASE("a capture shows that a connection was refused, and that one was reset") {
  const TemporaryDirectory directory;
  DeviceConfig config = iwarp_config_at(directory / "a.fabric");
  config.capture = directory / "a.pcapng";
  std::uint16_t refused = 0;
  std::uint16_t reset = 0;
  {
    IwarpNode a(config);
    refused = a.listen();
    a.service->release(a.listening);
    a.begin(refused);
    a.next(Kind::rejected);
    reset = a.listen();
    const PlainPeer peer(reset);
    REQUIRE(peer.send(request_frame()));
    REQUIRE(a.service->accept(a.next(Kind::request).event.id, a.qpn(), {}, {}) == 0);
    const auto id = a.next(Kind::established).event.id;
    REQUIRE(a.service->disconnect(id, true) == 0);
    a.next(Kind::disconnected);
  }
  auto ways = ways_of(config.capture);
  CHECK(ways[refused].flags == "R");
  CHECK(ways[reset].flags == "SR");
}

}  // namespace
}  // namespace verbena::ports
