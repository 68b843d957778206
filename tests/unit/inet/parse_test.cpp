// The inet parsers: each layer is bounded by its own length field, each refusal says why.
#include "proto/inet/parse.h"

#include <catch2/catch.hpp>

#include "tests/unit/wire_support/hex.h"

namespace verbena::inet {
namespace {

using test::Bytes;
using test::from_hex;
using test::to_hex;
using Kind = ParseError::Kind;

/// A UDP datagram of two bytes in an IPv4 packet.
constexpr std::string_view ipv4_hex =
    "4500001e00004000401126bb0a0900020a090001"
    "c1320035000a0000abcd";

}  // namespace

TEST_CASE("Ethernet with and without VLAN tags") {
  const Bytes plain = from_hex("ffffffffffff 525400000a00 0800 ab");
  const auto frame = parse_ethernet(plain);
  REQUIRE(frame);
  CHECK(frame->header.destination == mac_broadcast);
  CHECK(frame->header.source.to_text() == "52:54:00:00:0a:00");
  CHECK(frame->ethertype == ethertype_ipv4);
  CHECK(!frame->vlan_control);
  CHECK(to_hex(frame->payload) == "ab");

  const Bytes tagged = from_hex("ffffffffffff 525400000a00 8100 6005 86dd ab");
  const auto tagged_frame = parse_ethernet(tagged);
  REQUIRE(tagged_frame);
  CHECK(tagged_frame->ethertype == ethertype_ipv6);
  CHECK(tagged_frame->vlan_control == 0x6005);
  CHECK(to_hex(tagged_frame->payload) == "ab");

  // A third tag is left to whoever wants it: the limit is two.
  const Bytes thrice = from_hex("ffffffffffff 525400000a00 8100 0001 8100 0002 8100 0003 0800 ab");
  CHECK(parse_ethernet(thrice)->ethertype == ethertype_vlan);
}

TEST_CASE("Ethernet that ends within its headers is refused") {
  CHECK(parse_ethernet(from_hex("ffffffffffff 525400000a00 08")).error() ==
        ParseError{Kind::ethernet_truncated, 14, 13});
  CHECK(parse_ethernet(from_hex("ffffffffffff 525400000a00 8100 6005 86")).error() ==
        ParseError{Kind::ethernet_truncated, 18, 17});
  CHECK(describe(ParseError{Kind::ethernet_truncated, 18, 17}) ==
        "an Ethernet header needs 18 bytes, got 17");
}

TEST_CASE("IPv4 is bounded by its total length") {
  Bytes bytes = from_hex(ipv4_hex);
  bytes.resize(bytes.size() + 16);
  const auto packet = parse_ipv4(bytes);
  REQUIRE(packet);
  CHECK(packet->datagram.size() == 30);
  const auto udp = parse_udp(packet->payload);
  REQUIRE(udp);
  CHECK(udp->header.source_port.value() == 0xC132);
  CHECK(udp->header.destination_port.value() == 53);
  CHECK(to_hex(udp->payload) == "abcd");
}

TEST_CASE("IPv4 is refused with the reason") {
  CHECK(parse_ipv4({}).error() == ParseError{Kind::ipv4_truncated, 20, 0});
  Bytes bytes = from_hex(ipv4_hex);
  bytes[0] = std::byte{0x44};
  CHECK(parse_ipv4(bytes).error() == ParseError{Kind::ipv4_header_length, 20, 16});
  bytes[0] = std::byte{0x46};
  CHECK(parse_ipv4(bytes).error() == ParseError{Kind::ipv4_options, 20, 24});
  bytes[0] = std::byte{0x65};
  CHECK(parse_ipv4(bytes).error() == ParseError{Kind::ipv4_version, 4, 6});
  bytes[0] = std::byte{0x45};
  bytes[8] = std::byte{63};
  CHECK(parse_ipv4(bytes).error() == ParseError{Kind::ipv4_checksum, 0x27BB, 0x26BB});
  CHECK(describe(parse_ipv4(bytes).error()) == "IPv4 header checksum 0x27bb expected, got 0x26bb");
}

TEST_CASE("IPv6 is bounded by its payload length") {
  const std::string hex = "6000000000020640" + std::string(64, '0') + "abcdef";
  const Bytes bytes = from_hex(hex);
  const auto packet = parse_ipv6(bytes);
  REQUIRE(packet);
  CHECK(to_hex(packet->payload) == "abcd");
  CHECK(packet->datagram.size() == 42);
  CHECK(parse_ipv6(ByteView(bytes).first(41)).error() ==
        ParseError{Kind::ipv6_payload_length, 2, 1});
  CHECK(parse_ipv6(ByteView(bytes).first(39)).error() == ParseError{Kind::ipv6_truncated, 40, 39});
  Bytes version = bytes;
  version[0] = std::byte{0x40};
  CHECK(parse_ipv6(version).error() == ParseError{Kind::ipv6_version, 6, 4});
}

TEST_CASE("UDP lengths are checked against what is there") {
  CHECK(parse_udp(from_hex("c132003500080000"))->payload.empty());
  CHECK(parse_udp(from_hex("c1320035000800")).error() == ParseError{Kind::udp_truncated, 8, 7});
  CHECK(parse_udp(from_hex("c132003500090000")).error() == ParseError{Kind::udp_length, 9, 8});
  CHECK(parse_udp(from_hex("c132003500070000")).error() == ParseError{Kind::udp_length, 7, 8});
}

}  // namespace verbena::inet
