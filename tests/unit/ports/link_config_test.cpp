// Configuration of devices on a link.
#include <fstream>

#include "ports/device_config.h"
#include "proto/roce/gid.h"
#include "tests/unit/ports/config_support.h"
#include "tests/unit/ports/support.h"

namespace verbena::ports {
namespace {

using test::error_of;
using test::only_device;
using test::Variables;

TEST_CASE("a device on a link has addresses of its own, and the GID table of raw Ethernet") {
  const DeviceConfig device = only_device(
      {{"VERBENA_LINK", "qemu:/tmp/wire"}, {"VERBENA_ADDRESS", "10.77.9.1/16,fd77:9::1"}});
  CHECK(device.link == "qemu:/tmp/wire");
  CHECK(device.faces_network());
  REQUIRE(device.link_addresses.size() == 2);
  CHECK(device.link_addresses[0].to_text() == "10.77.9.1/16");
  CHECK(device.link_addresses[1].to_text() == "fd77:9::1/64");
  CHECK(device.mac.to_text() == "02:00:0a:4d:09:01");
  CHECK(device.mtu == nic::Mtu::mtu_1024);
  const auto gids = nic_config(device).gids;
  REQUIRE(gids.size() == 6);
  CHECK(roce::to_text(gids[2].gid) == "fe80::aff:fe4d:901");
  CHECK(gids[3].type == nic::GidEntry::Type::roce_v1);
}

TEST_CASE("a file may have a link, whose path and addresses the environment changes") {
  const auto devices = parse_devices(
      "[[device]]\naddresses = [\"10.77.9.1/16\"]\nlink = \"qemu:/tmp/wire\"\n"
      "mac = \"52:54:00:12:34:56\"\nmtu = 4096",
      "verbena.toml");
  REQUIRE(devices);
  CHECK(devices->front().link == "qemu:/tmp/wire");
  CHECK(devices->front().mac.to_text() == "52:54:00:12:34:56");
  CHECK(devices->front().mtu == nic::Mtu::mtu_4096);
  CHECK(devices->front().link_addresses.front().prefix_bits == 96 + 16);

  const test::TemporaryDirectory scratch;
  const std::string path = scratch / "verbena.toml";
  std::ofstream(path) << "[[device]]\naddresses = [\"10.77.9.1/16\"]\nlink = \"qemu:/tmp/wire\"\n";
  const DeviceConfig moved =
      only_device({{"VERBENA_CONFIG", path}, {"VERBENA_LINK", "qemu:/tmp/other"}});
  CHECK(moved.link == "qemu:/tmp/other");
  CHECK(moved.link_addresses.front().to_text() == "10.77.9.1/16");

  std::ofstream(path) << "[[device]]\ninterface = \"lo\"\n";
  const DeviceConfig unplugged = only_device({{"VERBENA_CONFIG", path},
                                              {"VERBENA_LINK", "qemu:/tmp/wire"},
                                              {"VERBENA_ADDRESS", "10.77.9.1/16"}});
  CHECK(unplugged.link == "qemu:/tmp/wire");
  CHECK(unplugged.interface.empty());
}

TEST_CASE("what can't be on a link is refused in words") {
  const auto [variables, words] = GENERATE(table<Variables, const char*>({
      {{{"VERBENA_LINK", "qemu:/tmp/x"}}, "needs an IP address of its own"},
      {{{"VERBENA_LINK", "/tmp/x"}}, "is no link: write qemu:PATH"},
      {{{"VERBENA_LINK", "qemu:/tmp/x"}, {"VERBENA_ADDRESS", "127.0.0.1"}}, "address of this host"},
      {{{"VERBENA_LINK", "qemu:/tmp/x"}, {"VERBENA_ADDRESS", "ff02::1"}}, "or a group"},
      {{{"VERBENA_LINK", "qemu:/tmp/x"}, {"VERBENA_RAW", "lo"}}, "contradict each other"},
      {{{"VERBENA_LINK", "qemu:/tmp/x"}, {"VERBENA_ADDRESS", "10.77.9.1"}, {"VERBENA_VLAN", "5"}},
       "untagged"},
      {{{"VERBENA_MAC", "02:00:00:00:00:01"}}, "goes with VERBENA_LINK"},
      {{{"VERBENA_MAC", "03:00:00:00:00:01"}}, "of a station"},
      {{{"VERBENA_ADDRESS", "127.0.0.1/8"}}, "only the address of a link"},
  }));
  CHECK_THAT(error_of(variables), Catch::Contains(words));
}

TEST_CASE("an iWARP device may be on a link, has faults there, and knows who is on it") {
  const DeviceConfig device = only_device({{"VERBENA_TRANSPORT", "iwarp"},
                                           {"VERBENA_LINK", "tap:wire0"},
                                           {"VERBENA_ADDRESS", "10.77.9.1/24"},
                                           {"VERBENA_LOSS", "1%"}});
  CHECK(device.technology == nic::Technology::iwarp);
  CHECK(device.link == "tap:wire0");
  CHECK(device.faults.size() == 1);
  CHECK(device.address_toward(*roce::gid_from_text("10.77.9.7")) == device.addresses.front());
  CHECK_FALSE(device.address_toward(*roce::gid_from_text("10.78.9.7")));
}

}  // namespace
}  // namespace verbena::ports
