// GIDs: how they stand for IP and MAC addresses, and how they are written.
#include "proto/roce/gid.h"

#include <catch2/catch.hpp>

#include "tests/unit/wire_support/hex.h"

namespace verbena::roce {

using inet::Ipv4Address;
using inet::Ipv6Address;
using inet::MacAddress;

TEST_CASE("an IPv4 address and its GID are two forms of one thing") {
  const Gid gid = gid_from_ipv4(Ipv4Address{{10, 9, 0, 1}});
  CHECK(test::to_hex(bytes_of(gid)) == "00000000000000000000ffff0a090001");
  CHECK(ipv4_from_gid(gid) == Ipv4Address{{10, 9, 0, 1}});
  CHECK(to_text(gid) == "::ffff:10.9.0.1");
  CHECK(to_long_text(gid) == "0000:0000:0000:0000:0000:ffff:0a09:0001");
}

TEST_CASE("only IPv4-mapped GIDs have an IPv4 address") {
  CHECK(!ipv4_from_gid(Gid{}));
  CHECK(!ipv4_from_gid(*gid_from_text("::fffe:10.9.0.1")));
  CHECK(!ipv4_from_gid(*gid_from_text("1::ffff:10.9.0.1")));
  CHECK(!ipv4_from_gid(*gid_from_text("fd09::1")));
}

// RFC 4291, appendix A: ff:fe in the middle, the universal/local bit inverted.
TEST_CASE("the link-local GID of a port is made of its MAC address") {
  const Gid gid = gid_link_local(*MacAddress::from_text("52:54:00:00:0a:00"));
  CHECK(to_text(gid) == "fe80::5054:ff:fe00:a00");
  CHECK(to_text(gid_link_local(*MacAddress::from_text("34:56:78:9a:bc:de"))) ==
        "fe80::3656:78ff:fe9a:bcde");
}

// RFC 1112, 6.4 and RFC 2464, 7.
TEST_CASE("multicast GIDs have MAC addresses of their own, others don't") {
  CHECK(multicast_mac(*gid_from_text("239.193.1.2"))->to_text() == "01:00:5e:41:01:02");
  CHECK(multicast_mac(*gid_from_text("ff02::1:ff00:a00"))->to_text() == "33:33:ff:00:0a:00");
  CHECK(is_multicast(*gid_from_text("224.0.0.1")));
  CHECK(!multicast_mac(*gid_from_text("223.255.255.255")));
  CHECK(!multicast_mac(*gid_from_text("fe80::1")));
  CHECK(!is_multicast(*gid_from_text("10.0.0.1")));
}

TEST_CASE("a GID is read from either family's text") {
  CHECK(gid_from_text("127.0.0.1") == gid_from_ipv4(Ipv4Address{{127, 0, 0, 1}}));
  CHECK(gid_from_text("fd09::2") == gid_from_ipv6(*Ipv6Address::from_text("fd09::2")));
  CHECK(!gid_from_text("localhost"));
  CHECK(!gid_from_text(""));
}

TEST_CASE("addresses of either kind are written as programs know them, and loopback is told") {
  const auto [text, loops] = GENERATE(table<const char*, bool>({{"127.0.0.1", true},
                                                                {"127.9.8.7", true},
                                                                {"::1", true},
                                                                {"::2", false},
                                                                {"10.0.0.1", false},
                                                                {"fd09::1", false}}));
  const Gid gid = gid_from_text(text).value();
  CHECK(to_address_text(gid) == text);
  CHECK(is_loopback(gid) == loops);
}

}  // namespace verbena::roce
