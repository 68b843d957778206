// Encapsulation: frames byte for byte, in buffers filled with 0xa5 beforehand.
#include "proto/roce/encap.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "proto/ib_bth/emit.h"
#include "proto/roce/decap.h"
#include "proto/roce/gid.h"
#include "proto/roce/whole_frame.h"
#include "tests/unit/roce/vectors.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::roce {
namespace {

using test::Bytes;
using test::to_hex;

constexpr std::byte unset{0xA5};

Path ipv4_path() {
  return {.version = Version::v2_ipv4,
          .destination_mac = *inet::MacAddress::from_text("52:54:00:00:0a:00"),
          .source_mac = *inet::MacAddress::from_text("52:54:00:00:0b:00"),
          .source = *gid_from_text("10.9.0.2"),
          .destination = *gid_from_text("10.9.0.1"),
          .udp_source_port = 0xC132};
}

Path ipv6_path() {
  Path path = ipv4_path();
  path.version = Version::v2_ipv6;
  path.source = *gid_from_text("fd09::2");
  path.destination = *gid_from_text("fd09::1");
  path.flow_label = 0x1'2345;
  return path;
}

Path v1_path() {
  Path path = ipv6_path();
  path.version = Version::v1;
  return path;
}

Bytes make_frame(const Encapsulation& encapsulation, ByteView transport, std::size_t slack = 0) {
  Bytes frame(encapsulation.frame_bytes(transport.size()) + slack, unset);
  encapsulation.write_prefix(frame, transport.size());
  copy_bytes(MutableBytes(frame).subspan(encapsulation.prefix_bytes()), transport);
  CHECK(encapsulation.finish(frame, transport.size()) == frame.size() - slack);
  return frame;
}

}  // namespace

// The frame of the specification's smallest packet: a SEND without data is 58 bytes, two short of
// Ethernet's minimum. The pad comes behind the ICRC and no length field counts it.
TEST_CASE("a short frame is padded behind the ICRC, if asked for") {
  Bytes transport(12);
  ib::emit_headers(transport, {.opcode = ib::Opcode::rc_send_only, .dest_qpn = Qpn{0x12}}, 0);
  const Encapsulation keeps(ipv4_path(), ShortFrames::keep);
  const Encapsulation pads(ipv4_path(), ShortFrames::pad);
  CHECK(keeps.prefix_bytes() == 42);
  const Bytes kept = make_frame(keeps, transport, 4);
  const Bytes padded = make_frame(pads, transport, 4);
  CHECK(kept.size() == 58 + 4);
  CHECK(padded.size() == 60 + 4);
  const std::string expected =
      "525400000a00525400000b000800"
      "4500002c00004000401126ad0a0900020a090001"
      "c13212b700180000"
      "0440ffff0000001200000000";
  CHECK(to_hex(kept).substr(0, 54 * 2) == expected);
  CHECK(to_hex(kept).substr(58 * 2) == "a5a5a5a5");
  CHECK(to_hex(padded) == to_hex(kept).substr(0, 58 * 2) + "0000" + "a5a5a5a5");
  CHECK(parse_frame(kept)->icrc_is_good());
  CHECK(parse_frame(padded)->icrc_is_good());
  CHECK(parse_frame(padded)->transport.size() == 12);
}

TEST_CASE("hardware's frames are reproduced from their path") {
  for (const auto hex : {test::cnp_frame, test::v1_write_frame, test::v1_ack_frame}) {
    const Bytes original = test::from_hex(hex);
    const auto frame = parse_frame(original);
    REQUIRE(frame);
    const Path path{.version = frame->version,
                    .destination_mac = frame->destination_mac,
                    .source_mac = frame->source_mac,
                    .source = frame->source,
                    .destination = frame->destination,
                    .traffic_class = frame->traffic_class,
                    .hop_limit = frame->hop_limit,
                    .flow_label = frame->flow_label,
                    .identification = frame->identification,
                    .udp_source_port = frame->udp_source_port};
    CHECK(to_hex(make_frame(Encapsulation(path), frame->transport)) == to_hex(original));
  }
}

TEST_CASE("a VLAN tag stands between the addresses and the EtherType") {
  Bytes transport(12);
  ib::emit_headers(transport, {.opcode = ib::Opcode::rc_send_only, .dest_qpn = Qpn{0x12}}, 0);
  for (Path path : {ipv4_path(), ipv6_path(), v1_path()}) {
    const Bytes plain = make_frame(Encapsulation(path, ShortFrames::keep), transport);
    path.vlan_control = 3U << 13 | 100;
    const Bytes tagged = make_frame(Encapsulation(path, ShortFrames::keep), transport);
    CHECK(to_hex(tagged) == to_hex(plain).substr(0, 24) + "81006064" + to_hex(plain).substr(24));
    const auto frame = parse_frame(tagged);
    REQUIRE(frame);
    CHECK(frame->vlan_control == path.vlan_control);
    CHECK(frame->icrc_is_good());
  }
}

TEST_CASE("a way that knows the Ethernet addresses puts them into the frame") {
  const Encapsulation encapsulation(ipv4_path());
  Bytes frame(encapsulation.frame_bytes(12));
  const WayFields way{.destination_mac = {2, 0, 0, 0, 0, 1}, .source_mac = {2, 0, 0, 0, 0, 2}};
  encapsulation.write_prefix(frame, 12, way);
  CHECK(to_hex(frame).substr(0, 24) == "020000000001020000000002");
}

TEST_CASE("a whole frame is the one that is built in place, or one bit of its ICRC isn't") {
  Bytes transport(12);
  ib::emit_headers(transport, {.opcode = ib::Opcode::rc_send_only, .dest_qpn = Qpn{0x12}}, 0);
  const Bytes expected = make_frame(Encapsulation(ipv4_path(), ShortFrames::keep), transport);
  CHECK(to_hex(whole_frame(ipv4_path(), transport, false)) == to_hex(expected));
  const Bytes bad = whole_frame(ipv4_path(), transport, true);
  CHECK(to_hex(bad).substr(0, 2 * (expected.size() - icrc_bytes)) ==
        to_hex(expected).substr(0, 2 * (expected.size() - icrc_bytes)));
  const auto frame = parse_frame(bad);
  REQUIRE(frame);
  CHECK_FALSE(frame->icrc_is_good());
}

// Every version and length: the frame that comes out is the one that parses back.
TEST_CASE("what is wrapped is unwrapped again, at every length") {
  Prng prng(2);
  for (const Path& path : {ipv4_path(), ipv6_path(), v1_path()}) {
    const Encapsulation encapsulation(path);
    for (std::size_t length = 12; length <= 4096 + 64; length += length < 300 ? 4 : 404) {
      INFO("version " << static_cast<int>(path.version) << ", length " << length);
      const Bytes transport = test::random_bytes(prng, length);
      const Bytes bytes = make_frame(encapsulation, transport);
      const auto frame = parse_frame(bytes);
      REQUIRE(frame);
      REQUIRE(frame->version == path.version);
      REQUIRE(frame->destination_mac == path.destination_mac);
      REQUIRE(frame->source_mac == path.source_mac);
      REQUIRE(frame->source == path.source);
      REQUIRE(frame->destination == path.destination);
      REQUIRE(frame->traffic_class == path.traffic_class);
      REQUIRE(frame->hop_limit == path.hop_limit);
      REQUIRE(frame->flow_label == path.flow_label);
      REQUIRE(std::ranges::equal(frame->transport, transport));
      REQUIRE(frame->icrc_is_good());
      REQUIRE(frame->udp_source_port == (path.version == Version::v1 ? 0 : path.udp_source_port));
      REQUIRE(frame->udp_checksum == 0);
    }
  }
}

// The header checksum is updated from a sum over the template: its carries must come out right.
TEST_CASE("the IPv4 header checksum is right for every field and length") {
  Prng prng(3);
  for (int round = 0; round < 2000; ++round) {
    Path path = ipv4_path();
    path.traffic_class = static_cast<std::uint8_t>(prng.next());
    path.hop_limit = static_cast<std::uint8_t>(prng.next());
    path.identification = static_cast<std::uint16_t>(prng.next());
    path.source =
        gid_from_ipv4(inet::Ipv4Address::from_value(static_cast<std::uint32_t>(prng.next())));
    Bytes frame(42, unset);
    const WayFields way{.identification = static_cast<std::uint16_t>(prng.next())};
    Encapsulation(path).write_prefix(frame, prng.below(transport_bytes_max + 1), way);
    REQUIRE(inet::internet_checksum(ByteView(frame).subspan(14, 20)) == 0);
  }
}

// A kernel that sends our datagrams numbers them and chooses their port; the ICRC covers both.
TEST_CASE("what the way fills in is in the frame, and under the ICRC") {
  const Encapsulation encapsulation(ipv4_path());
  Bytes frame(encapsulation.frame_bytes(20), std::byte{0});
  encapsulation.write_prefix(frame, 20, {.identification = 0x1234, .udp_source_port = udp_port});
  encapsulation.finish(frame, 20);
  const auto parsed = parse_frame(frame);
  REQUIRE(parsed);
  CHECK(parsed->identification == 0x1234);
  CHECK(parsed->udp_source_port == udp_port);
  CHECK(parsed->icrc_is_good());
}

}  // namespace verbena::roce
