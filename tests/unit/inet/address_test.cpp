// Addresses as text, against the C library's inet_pton() and inet_ntop().
#include <arpa/inet.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "base/bytes.h"
#include "base/prng.h"
#include "proto/inet/ip_address.h"
#include "proto/inet/mac_address.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::inet {
namespace {

template <class Address>
std::string libc_to_text(const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  constexpr int family = sizeof(Address) == 4 ? AF_INET : AF_INET6;
  REQUIRE(inet_ntop(family, address.bytes.data(), text.data(), text.size()) != nullptr);
  return text.data();
}

template <class Address>
std::optional<Address> libc_from_text(const std::string& text) {
  Address address;
  constexpr int family = sizeof(Address) == 4 ? AF_INET : AF_INET6;
  return inet_pton(family, text.c_str(), address.bytes.data()) == 1 ? std::optional(address)
                                                                    : std::nullopt;
}

}  // namespace

TEST_CASE("a MAC address is written and read") {
  constexpr MacAddress mac{{0x52, 0x54, 0x00, 0x00, 0x0A, 0xFF}};
  CHECK(mac.to_text() == "52:54:00:00:0a:ff");
  CHECK(MacAddress::from_text("52:54:00:00:0a:ff") == mac);
  CHECK(MacAddress::from_text("52-54-00-00-0A-FF") == mac);
  for (const auto* bad : {"", "52:54:00:00:0a", "52:54:00:00:0a:ff:", "52:54:00:00:0a-ff",
                          "52:54:00:00:0a:fg", "5254:00:00:0a:fff", "052:54:00:00:0a:ff"}) {
    INFO(bad);
    CHECK(!MacAddress::from_text(bad));
  }
  CHECK(mac_broadcast.is_group());
  CHECK(!mac.is_group());
}

TEST_CASE("an IPv4 address is written and read, and only in full") {
  CHECK(Ipv4Address::from_text("127.0.0.1") == Ipv4Address{{127, 0, 0, 1}});
  CHECK(Ipv4Address{{255, 254, 0, 10}}.to_text() == "255.254.0.10");
  CHECK(Ipv4Address::from_value(0x0A09'0001) == Ipv4Address{{10, 9, 0, 1}});
  CHECK(Ipv4Address{{10, 9, 0, 1}}.to_value() == 0x0A09'0001);
  for (const auto* bad : {"", "1.2.3", "1.2.3.", "1.2.3.4.", "1.2.3.4.5", ".1.2.3", "256.1.1.1",
                          "01.2.3.4", "1.2.3.-4", "1.2.3.4 ", "0x1.2.3.4", "1..3.4", "+1.2.3.4"}) {
    INFO(bad);
    CHECK(!Ipv4Address::from_text(bad));
    CHECK(!libc_from_text<Ipv4Address>(bad));
  }
  CHECK(Ipv4Address{{224, 0, 0, 1}}.is_multicast());
  CHECK(!Ipv4Address{{240, 0, 0, 1}}.is_multicast());
  CHECK(Ipv4Address{{127, 1, 2, 3}}.is_loopback());
}

TEST_CASE("the forms of an IPv6 address are those that inet_pton takes") {
  for (const auto* text : {"::", "::1", "1::", "fe80::5054:ff:fe00:a00", "1:2:3:4:5:6:7:8",
                           "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::8", "::ffff:10.9.0.1",
                           "::10.9.0.1", "1:2:3:4:5:6:10.9.0.1", "FD09::A", "0001:0::0",
                           // Not addresses:
                           "", ":", ":::", "1", "1:", ":1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9",
                           "1::2::3", "12345::", "1:2:3:4:5:6:7:8::", "::1:2:3:4:5:6:7:8",
                           "g::", "1.2.3.4", "1.2.3.4::", "::1.2.3.4:5", "::1.2.3", "::256.1.1.1",
                           "1:2:3:4:5:6:7:1.2.3.4", "fe80::1%eth0", " ::1", "::-1", "1:::2"}) {
    INFO(text);
    CHECK(Ipv6Address::from_text(text) == libc_from_text<Ipv6Address>(text));
  }
}

// RFC 5952, 4: the longest run of zeros, the first of several, never a single one.
TEST_CASE("an IPv6 address is written in the recommended form") {
  for (const auto* text :
       {"::", "::1", "1::", "2001:db8::1", "2001:db8:0:1:1:1:1:1", "1::2:0:0:3:4", "1:0:0:2::3",
        "::ffff:10.9.0.1", "fe80::5054:ff:fe00:a00"}) {
    INFO(text);
    REQUIRE(Ipv6Address::from_text(text));
    CHECK(Ipv6Address::from_text(text)->to_text() == text);
  }
}

TEST_CASE("random addresses are written as inet_ntop writes them and read back") {
  Prng prng(6);
  for (int round = 0; round < 5000; ++round) {
    Ipv6Address address;
    for (std::size_t i = 2; i < address.bytes.size(); i += 2) {
      // Many groups are zero, so that runs of every place and length come up. The first isn't: the
      // C library writes some addresses below ::/80 in dotted decimal that we don't.
      address.bytes[i] = 0;
      address.bytes[i + 1] = static_cast<std::uint8_t>(prng.below(2));
    }
    address.bytes[0] = static_cast<std::uint8_t>(1 + prng.below(255));
    INFO(test::to_hex(bytes_of(address)));
    REQUIRE(address.to_text() == libc_to_text(address));
    REQUIRE(Ipv6Address::from_text(address.to_text()) == address);
  }
  for (int round = 0; round < 1000; ++round) {
    const auto address = Ipv4Address::from_value(static_cast<std::uint32_t>(prng.next()));
    REQUIRE(address.to_text() == libc_to_text(address));
    REQUIRE(Ipv4Address::from_text(address.to_text()) == address);
  }
}

}  // namespace verbena::inet
