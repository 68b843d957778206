// The table of bound ports: what two processes of a host may have at the same time, and that ports
// come back when a process leaves.
#include "ports/service_table.h"

#include <cerrno>
#include <set>

#include "proto/roce/gid.h"
#include "tests/unit/ports/fabric_fixture.h"

namespace verbena::ports {
namespace {

using test::join_fabric;
using test::TemporaryDirectory;

constexpr std::uint64_t tcp = 0x0106'0000;
constexpr std::uint64_t udp = 0x0111'0000;
const Gid any_v4 = roce::gid_from_ipv4({});
const Gid any_v6{};
const Gid one = roce::gid_from_ipv4({{10, 0, 0, 1}});
const Gid two = roce::gid_from_ipv4({{10, 0, 0, 2}});

ServiceClaim claim(std::uint16_t port, const Gid& address = any_v4, std::uint64_t space = tcp) {
  return {.space = space, .port = port, .address = address};
}

/// 0 if it was bound.
int bind(Fabric& fabric, const ServiceClaim& wanted) {
  const auto bound = ServiceTable(fabric).bind(wanted);
  return bound ? 0 : bound.error();
}

TEST_CASE("A port belongs to one process, until that leaves") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto first = join_fabric(path);
  auto second = join_fabric(path);
  CHECK(bind(*second, claim(7174)) == 0);
  CHECK(bind(*first, claim(7174)) == EADDRINUSE);
  CHECK(bind(*first, claim(7174, one)) == EADDRINUSE);
  CHECK(bind(*first, claim(7174, any_v4, udp)) == 0);
  CHECK(bind(*first, claim(7175)) == 0);
  second.reset();
  CHECK(bind(*first, claim(7174)) == 0);
}

TEST_CASE("A port on one address leaves the others free") {
  const TemporaryDirectory directory;
  const auto fabric = join_fabric(directory / "a.fabric");
  CHECK(bind(*fabric, claim(5, one)) == 0);
  CHECK(bind(*fabric, claim(5, two)) == 0);
  CHECK(bind(*fabric, claim(5, one)) == EADDRINUSE);
  CHECK(bind(*fabric, claim(5)) == EADDRINUSE);
}

TEST_CASE("Any IPv6 address means IPv4 as well, unless it is said not to") {
  const TemporaryDirectory directory;
  const auto fabric = join_fabric(directory / "a.fabric");
  CHECK(bind(*fabric, claim(5, any_v6)) == 0);
  CHECK(bind(*fabric, claim(5, one)) == EADDRINUSE);
  ServiceClaim only = claim(6, any_v6);
  only.v6_only = true;
  CHECK(bind(*fabric, only) == 0);
  CHECK(bind(*fabric, claim(6, one)) == 0);
}

TEST_CASE("Who reuses a port may share it, but not while somebody listens") {
  const TemporaryDirectory directory;
  const auto fabric = join_fabric(directory / "a.fabric");
  ServiceTable table(*fabric);
  ServiceClaim shared = claim(5);
  shared.reuse = true;
  const auto first = table.bind(shared);
  const auto second = table.bind(shared);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(table.listen(first->entry) == EADDRINUSE);
  table.release(second->entry);
  CHECK(table.listen(first->entry) == 0);
  CHECK(bind(*fabric, shared) == EADDRINUSE);
}

TEST_CASE("Ephemeral ports differ, and are all given away before there is none") {
  const TemporaryDirectory directory;
  const auto fabric = join_fabric(directory / "a.fabric");
  ServiceTable table(*fabric);
  std::set<std::uint16_t> ports;
  for (std::uint32_t i = 0; i < 200; ++i) {
    const auto bound = table.bind(claim(0));
    REQUIRE(bound);
    CHECK(bound->port >= 32768);
    CHECK(ports.insert(bound->port).second);
  }
}

TEST_CASE("The table is full after so many ports, and one that is released is free again") {
  const TemporaryDirectory directory;
  const auto fabric = join_fabric(directory / "a.fabric");
  ServiceTable table(*fabric);
  std::optional<ServiceEntryId> last;
  for (std::uint32_t i = 0; i < services_max; ++i) {
    const auto bound = table.bind(claim(static_cast<std::uint16_t>(i + 1)));
    REQUIRE(bound);
    last = bound->entry;
  }
  CHECK(bind(*fabric, claim(9999)) == EADDRNOTAVAIL);
  table.release(*last);
  CHECK(bind(*fabric, claim(9999)) == 0);
}

TEST_CASE("Listeners are found by service and address, and named for people") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto first = join_fabric(path);
  auto second = join_fabric(path);
  ServiceTable table(*second);
  const auto bound = table.bind(claim(7174, one));
  REQUIRE(bound);
  CHECK_FALSE(table.has_listener(tcp | 7174, one));
  REQUIRE(table.listen(bound->entry) == 0);
  ServiceTable other(*first);
  CHECK(other.has_listener(tcp | 7174, one));
  CHECK_FALSE(other.has_listener(tcp | 7174, two));
  CHECK_FALSE(other.has_listener(udp | 7174, one));
  const auto named = other.listeners(tcp);
  REQUIRE(named.size() == 1);
  CHECK(named[0].starts_with("port 7174 of 10.0.0.1 (process "));
  second.reset();
  CHECK_FALSE(other.has_listener(tcp | 7174, one));
  CHECK(other.listeners(tcp).empty());
}

}  // namespace
}  // namespace verbena::ports
