// TCP segments in frames: what is written is found again with right checksums, and nothing that is
// no TCP is taken for it.
#include "proto/inet/tcp/frame.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace verbena;
using namespace verbena::inet;

namespace {

constexpr TcpFramePath path{.source_mac = {{2, 0, 10, 0, 0, 1}},
                            .destination_mac = {{2, 0, 10, 0, 0, 2}},
                            .source = mapped({{10, 0, 0, 1}}),
                            .destination = mapped({{10, 0, 0, 2}})};

std::vector<std::byte> frame_with(std::size_t payload_bytes) {
  std::vector<std::byte> frame(tcp_frame_prefix_bytes + tcp_header_bytes + payload_bytes);
  TcpHeader header;
  header.source_port = 49'152;
  header.destination_port = 7'471;
  header.sequence = 1'000;
  header.data_offset = tcp_header_bytes / 4 << 4;
  header.flags = TcpHeader::flag_ack;
  write_struct(MutableBytes(frame).subspan(tcp_frame_prefix_bytes), header);
  for (std::size_t i = 0; i < payload_bytes; ++i) {
    frame[tcp_frame_prefix_bytes + tcp_header_bytes + i] = static_cast<std::byte>(i);
  }
  finish_tcp_frame(frame, path);
  return frame;
}

}  // namespace

TEST_CASE("a segment that was put into a frame is found there, checksums and all") {
  const std::size_t payload_bytes = GENERATE(0, 1, 2, 1460, 8960);
  const auto frame = frame_with(payload_bytes);
  const auto found = parse_tcp_frame(frame);
  REQUIRE(found);
  CHECK(found->source == path.source);
  CHECK(found->destination == path.destination);
  CHECK(found->segment_offset == tcp_frame_prefix_bytes);
  CHECK(found->segment.payload.size() == payload_bytes);
  CHECK(found->segment.header.sequence.value() == 1'000);
  CHECK(found->checksum_is_good());
}

TEST_CASE("a byte that changes is seen by a checksum, or it isn't ours to see") {
  const auto frame = frame_with(5);
  // The Ethernet header has none.
  for (std::size_t at = ethernet_header_bytes; at < frame.size(); ++at) {
    auto changed = frame;
    changed[at] ^= std::byte{0x40};
    const auto found = parse_tcp_frame(changed);
    INFO("byte " << at);
    CHECK((!found || !found->checksum_is_good()));
  }
}

TEST_CASE("frames that end early or hold something else have no segment") {
  auto frame = frame_with(5);
  for (std::size_t bytes = 0; bytes < frame.size(); ++bytes) {
    CHECK_FALSE(parse_tcp_frame(ByteView(frame).first(bytes)));
  }
  auto ip = read_struct<Ipv4Header>(ByteView(frame).subspan(ethernet_header_bytes));
  ip.protocol = ip_protocol_udp;
  ip.checksum = ipv4_checksum(ip);
  write_struct(MutableBytes(frame).subspan(ethernet_header_bytes), ip);
  CHECK_FALSE(parse_tcp_frame(frame));
}

TEST_CASE("over IPv6 it is the same, but mapped addresses are not for the wire") {
  TcpFramePath path6 = path;
  path6.source = *Ipv6Address::from_text("fd00:7::1");
  path6.destination = *Ipv6Address::from_text("fd00:7::2");
  const std::size_t prefix_bytes = tcp_frame_prefix_bytes_of(path6.source);
  std::vector<std::byte> frame(prefix_bytes + tcp_header_bytes + 3, std::byte{7});
  TcpHeader header;
  header.data_offset = tcp_header_bytes / 4 << 4;
  write_struct(MutableBytes(frame).subspan(prefix_bytes), header);
  finish_tcp_frame(frame, path6);
  const auto found = parse_tcp_frame(frame);
  REQUIRE(found);
  CHECK(found->source == path6.source);
  CHECK(found->destination == path6.destination);
  CHECK(found->segment_offset == prefix_bytes);
  CHECK(found->segment.payload.size() == 3);
  CHECK(found->checksum_is_good());

  auto ip = read_struct<Ipv6Header>(ByteView(frame).subspan(ethernet_header_bytes));
  ip.source = path.source;
  write_struct(MutableBytes(frame).subspan(ethernet_header_bytes), ip);
  CHECK_FALSE(parse_tcp_frame(frame));
}
