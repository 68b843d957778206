// IP header fields by their place in the RFCs' figures, and the internet checksum.
#include "proto/inet/headers.h"

#include <catch2/catch.hpp>

#include "tests/unit/wire_support/field_check.h"

namespace verbena::inet {

// RFC 1071, 3: the example sums to 0xddf2.
TEST_CASE("the internet checksum is that of RFC 1071") {
  CHECK(internet_checksum(test::from_hex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2);
  CHECK(internet_checksum(test::from_hex("0001f203f4f5f6f7220d")) == 0);
  CHECK(internet_checksum({}) == 0xFFFF);
  CHECK(internet_checksum(test::from_hex("12")) == 0xEDFF);
}

// The words are added four bytes at a time: any length and any carry must come out as the
// definition says.
TEST_CASE("the internet checksum is the complement of the sum of 16-bit words") {
  Prng prng(71);
  for (int round = 0; round < 5000; ++round) {
    auto bytes = test::random_bytes(prng, prng.below(70));
    if (prng.chance({1, 4})) {
      bytes.assign(bytes.size(), std::byte{0xFF});
    }
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      sum += std::to_integer<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
    }
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = (sum & 0xFFFF) + (sum >> 16);
    INFO(test::to_hex(bytes));
    REQUIRE(internet_checksum(bytes) == 0xFFFF - sum);
  }
}

// A header from a capture of hardware.
TEST_CASE("the IPv4 checksum doesn't depend on what the checksum field holds") {
  auto header = read_struct<Ipv4Header>(test::from_hex("45c2003c718c4000401191610a0011010a001201"));
  CHECK(ipv4_checksum(header) == 0x9161);
  header.checksum = 0xFFFF;
  CHECK(ipv4_checksum(header) == 0x9161);
}

TEST_CASE("an IPv4 header is laid out as RFC 791 draws it") {
  const auto header =
      read_struct<Ipv4Header>(test::from_hex("45c2003c718c4000401191610a0011010a001201"));
  CHECK(header.version() == 4);
  CHECK(header.header_bytes() == 20);
  CHECK(header.type_of_service == 0xC2);
  CHECK(header.total_bytes.value() == 60);
  CHECK(header.identification.value() == 0x718C);
  CHECK(header.flags_and_offset.value() == Ipv4Header::flag_dont_fragment);
  CHECK(header.time_to_live == 64);
  CHECK(header.protocol == ip_protocol_udp);
  CHECK(header.source.to_text() == "10.0.17.1");
  CHECK(header.destination.to_text() == "10.0.18.1");
}

TEST_CASE("an IPv6 header is laid out as RFC 8200 draws it") {
  const auto header =
      read_struct<Ipv6Header>(test::from_hex("6e21face002c11ff"
                                             "20220000000000000000000000001023"
                                             "20230000000000000000000000001024"));
  CHECK(header.version() == 6);
  CHECK(header.traffic_class() == 0xE2);
  CHECK(header.flow_label() == 0x1'FACE);
  CHECK(header.payload_bytes.value() == 44);
  CHECK(header.next_header == ip_protocol_udp);
  CHECK(header.hop_limit == 255);
  CHECK(header.source.to_text() == "2022::1023");
  CHECK(header.destination.to_text() == "2023::1024");
  Ipv6Header made;
  made.set_class_and_flow(0xE2, 0xFFF1'FACE);
  CHECK(test::to_hex(bytes_of(made)).substr(0, 8) == "6e21face");
}

}  // namespace verbena::inet
