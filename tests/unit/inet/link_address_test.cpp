// Addresses with their subnets, as a user writes them.
#include "proto/inet/link_address.h"

#include <catch2/catch.hpp>

namespace verbena::inet {
namespace {

Ipv6Address address_of(const char* text) { return LinkAddress::from_text(text)->address; }

}  // namespace

TEST_CASE("an address comes with its subnet, or with the usual one") {
  CHECK(LinkAddress::from_text("10.7.0.1/16")->to_text() == "10.7.0.1/16");
  CHECK(LinkAddress::from_text("10.7.0.1")->to_text() == "10.7.0.1/24");
  CHECK(LinkAddress::from_text("fd00::1/48")->to_text() == "fd00::1/48");
  CHECK(LinkAddress::from_text("fd00::1")->to_text() == "fd00::1/64");
  CHECK(LinkAddress::from_text("10.7.0.1/32")->prefix_bits == 128);
  CHECK(LinkAddress::from_text("::ffff:10.7.0.1")->to_text() == "10.7.0.1/24");
  CHECK(LinkAddress::from_text("::ffff:10.7.0.1/112")->to_text() == "10.7.0.1/16");
}

TEST_CASE("what is no address with a subnet is refused") {
  const char* text =
      GENERATE("", "/", "/24", "10.7.0.1/", "10.7.0.1/0", "10.7.0.1/33", "10.7.0.1/24x",
               "10.7.0.1/ 24", "10.7.0.1/-1", "10.7.0/24", "fd00::1/0", "fd00::1/129",
               "fd00::1/64/64", "fd00::1%eth0/64", "::ffff:10.7.0.1/96");
  INFO(text);
  CHECK_FALSE(LinkAddress::from_text(text));
}

TEST_CASE("a subnet covers what shares its prefix, to the bit") {
  const auto own = *LinkAddress::from_text("10.7.1.1/23");
  CHECK(own.covers(address_of("10.7.0.255")));
  CHECK(own.covers(address_of("10.7.1.0")));
  CHECK_FALSE(own.covers(address_of("10.7.2.1")));
  CHECK_FALSE(own.covers(address_of("fd00::1")));
  CHECK(LinkAddress::from_text("10.7.0.1/32")->covers(address_of("10.7.0.1")));
  CHECK_FALSE(LinkAddress::from_text("10.7.0.1/32")->covers(address_of("10.7.0.0")));
  CHECK(LinkAddress::from_text("fd00::1/65")->covers(address_of("fd00::7fff:ffff:ffff:ffff")));
  CHECK_FALSE(LinkAddress::from_text("fd00::1/65")->covers(address_of("fd00::8000:0:0:1")));
}

}  // namespace verbena::inet
