// What the kernel tells of the network, and who is asked for at all: attributes of any bytes, and
// addresses that tell their Ethernet address themselves.
#include "ports/neighbours.h"

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <vector>

#include "base/prng.h"
#include "ports/netlink.h"
#include "proto/roce/gid.h"

namespace verbena::ports {
namespace {

using namespace std::chrono_literals;
using Kind = Neighbours::Answer::Kind;

Gid gid(const char* text) { return *roce::gid_from_text(text); }

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> result;
  for (const int value : values) {
    result.push_back(static_cast<std::byte>(value));
  }
  return result;
}

}  // namespace

TEST_CASE("an attribute is found behind others of any length") {
  // Length and type in the machine's order (little-endian), values padded to four bytes.
  const auto row = bytes({5, 0, 1, 0, 0xAA, 0, 0, 0, 8, 0, 2, 0, 1, 2, 3, 4, 4, 0, 3, 0});
  CHECK(attribute(row, 1)->size() == 1);
  CHECK(attribute(row, 2)->size() == 4);
  CHECK(attribute(row, 2)->front() == std::byte{1});
  CHECK(attribute(row, 3)->empty());
  CHECK_FALSE(attribute(row, 4));
}

TEST_CASE("a row of attributes that makes no sense ends where it ceases to") {
  CHECK_FALSE(attribute(bytes({3, 0, 1, 0}), 1));
  CHECK_FALSE(attribute(bytes({0, 0, 1, 0}), 1));
  CHECK_FALSE(attribute(bytes({9, 0, 1, 0, 0, 0, 0, 0}), 1));
  CHECK_FALSE(attribute(bytes({4, 0, 1}), 1));
  CHECK_FALSE(attribute(bytes({5, 0, 1, 0, 7}), 2));
}

TEST_CASE("attributes of any bytes are read without harm") {
  Prng prng(GENERATE(range(0U, 300U)));
  std::vector<std::byte> row(prng.below(64));
  for (std::byte& byte : row) {
    byte = static_cast<std::byte>(prng.below(12));
  }
  for (std::uint16_t type = 0; type < 12; ++type) {
    const auto value = attribute(row, type);
    CHECK((!value || value->size() <= row.size()));
  }
}

TEST_CASE("groups and link-local addresses tell their Ethernet address themselves") {
  Neighbours neighbours("verbena0", 0);
  const auto group = neighbours.find(gid("239.193.1.2"), Time{});
  CHECK(group.kind == Kind::known);
  CHECK(group.mac.to_text() == "01:00:5e:41:01:02");
  const auto peer = neighbours.find(gid("fe80::5054:ff:fe12:3456"), Time{});
  CHECK(peer.kind == Kind::known);
  CHECK(peer.mac.to_text() == "52:54:00:12:34:56");
  CHECK(neighbours.given_up() == 0);
}

TEST_CASE("whom no way leads to is given up for a second") {
  constexpr unsigned no_such_interface = 0x7FFF'FFFF;
  Neighbours neighbours("verbena0", no_such_interface);
  const Gid address = gid(GENERATE("192.0.2.1", "2001:db8::1"));
  const Time start = Time{} + 10s;
  CHECK(neighbours.find(address, start).kind == Kind::unreachable);
  CHECK(neighbours.find(address, start + 900ms).kind == Kind::unreachable);
  CHECK(neighbours.given_up() == 1);
  CHECK(neighbours.find(address, start + 1s).kind == Kind::unreachable);
  CHECK(neighbours.given_up() == 2);
}

TEST_CASE("an address of this host is nobody's neighbour") {
  const auto kernel = Netlink::open();
  REQUIRE(kernel);
  constexpr unsigned loopback_interface = 1;
  CHECK_FALSE(kernel->next_hop(gid("127.0.0.1"), loopback_interface));
  CHECK_FALSE(kernel->neighbour(gid("192.0.2.1"), loopback_interface));
}

}  // namespace verbena::ports
