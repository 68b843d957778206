// What Linux's TCP really sent (tests/data/captures/siw): its checksums are ours, and its SYN is
// understood.
#include <catch2/catch.hpp>
#include <filesystem>

#include "pcap/reader.h"
#include "proto/inet/parse.h"
#include "proto/inet/tcp/checksum.h"
#include "proto/inet/tcp/options.h"
#include "proto/inet/tcp_header.h"
#include "tests/unit/project_file.h"

namespace verbena::inet {

TEST_CASE("the checksum of every captured segment is right, and a changed bit makes it wrong") {
  std::size_t segments = 0;
  std::size_t syns = 0;
  const auto folder = test::project_file("tests/data/captures/siw");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    auto reader = pcap::Reader::open(entry.path().string());
    REQUIRE(reader);
    for (auto packet = reader->next(); packet && *packet; packet = reader->next()) {
      const auto ethernet = parse_ethernet((*packet)->frame);
      const auto ip =
          ethernet ? parse_ipv4(ethernet->payload) : Result<Ipv4Packet, ParseError>(std::unexpect);
      if (!ip || ip->header.protocol != ip_protocol_tcp) {
        continue;
      }
      ++segments;
      CHECK(tcp_checksum(ip->header.source, ip->header.destination, ip->payload) == 0);
      std::vector<std::byte> changed(ip->payload.begin(), ip->payload.end());
      changed.back() ^= std::byte{4};
      CHECK(tcp_checksum(ip->header.source, ip->header.destination, changed) != 0);
      const auto segment = parse_tcp(ip->payload);
      REQUIRE(segment);
      if (segment->header.has(TcpHeader::flag_syn)) {
        ++syns;
        const TcpSynOptions options = parse_syn_options(segment->options);
        CHECK(options.mss.value_or(0) >= 1460);
        CHECK(options.window_shift.has_value());
      }
    }
  }
  CHECK(segments > 300);
  CHECK(syns > 20);
}

}  // namespace verbena::inet
