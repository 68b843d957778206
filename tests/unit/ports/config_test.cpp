// Device configuration: defaults, every key, every override, and words for every mistake.
#include <algorithm>
#include <array>
#include <fstream>
#include <map>

#include "ports/device_config.h"
#include "ports/device_draft.h"
#include "ports/interfaces.h"
#include "ports/real_devices.h"
#include "proto/roce/gid.h"
#include "tests/unit/ports/config_support.h"
#include "tests/unit/ports/support.h"

namespace verbena::ports {
namespace {

using test::environment_of;
using test::error_of;
using test::only_device;
using test::Variables;

std::string parse_error(std::string_view toml) {
  const auto devices = parse_devices(toml, "verbena.toml");
  REQUIRE_FALSE(devices);
  return devices.error();
}

TEST_CASE("without any configuration there is verbena0 on the loopback address") {
  const DeviceConfig device = only_device({});
  CHECK(device.name == "verbena0");
  REQUIRE(device.addresses.size() == 1);
  CHECK(roce::to_address_text(device.addresses[0]) == "127.0.0.1");
  CHECK(device.mtu == nic::Mtu::mtu_4096);
  CHECK(device.capture.empty());
  CHECK(
      device.fabric_path.starts_with("/dev/shm/verbena-" + std::to_string(geteuid()) + "/default"));

  SECTION("and its GUID is the same each time, locally administered, another for another name") {
    CHECK(device.guid == only_device({}).guid);
    CHECK(device.guid >> 56 == 0x02);
    CHECK(device.guid != only_device({{"VERBENA_DEVICE", "verbena1"}}).guid);
  }
  SECTION("and empty variables count as not set") {
    CHECK(only_device({{"VERBENA_MTU", ""}, {"VERBENA_ADDRESS", ""}}).mtu == nic::Mtu::mtu_4096);
  }
}

TEST_CASE("the GID table follows the order of the addresses") {
  const DeviceConfig device = only_device({{"VERBENA_ADDRESS", "127.0.0.3,127.0.0.1,127.0.0.2"}});
  const nic::NicConfig nic = nic_config(device);
  // Three over IPv4, the link-local one of the first address, and all again as RoCE v1.
  REQUIRE(nic.gids.size() == 8);
  CHECK(roce::to_text(nic.gids[3].gid) == "fe80::7fff:fe00:3");
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(nic.gids[i].type == nic::GidEntry::Type::roce_v2);
    CHECK(nic.gids[i + 4].type == nic::GidEntry::Type::roce_v1);
    CHECK(nic.gids[i + 4].gid == nic.gids[i].gid);
  }
  CHECK(roce::to_text(nic.gids[0].gid) == "::ffff:127.0.0.3");
  CHECK(roce::to_text(nic.gids[1].gid) == "::ffff:127.0.0.1");
  CHECK(roce::to_text(nic.gids[2].gid) == "::ffff:127.0.0.2");
  CHECK(nic.gids[0].type == nic::GidEntry::Type::roce_v2);
  CHECK(nic.node_guid == device.guid);
}

TEST_CASE("each variable sets what its name says") {
  const DeviceConfig device = only_device({{"VERBENA_DEVICE", "mlx5_0"},
                                           {"VERBENA_INTERFACE", "lo"},
                                           {"VERBENA_MTU", "1024"},
                                           {"VERBENA_GUID", "0200:00ff:fe12:3456"},
                                           {"VERBENA_ACK_TIMEOUT_MIN_MS", "5"},
                                           {"VERBENA_CONNECT_TIMEOUT_S", "7"},
                                           {"VERBENA_ICRC_SENT", "zero"},
                                           {"VERBENA_ICRC_CHECK", "off"},
                                           {"VERBENA_FABRIC", "/tmp/x/y.fabric"},
                                           {"VERBENA_RING_KIB", "64"},
                                           {"VERBENA_CAPTURE", "trace.pcapng"}});
  CHECK(device.name == "mlx5_0");
  CHECK(roce::to_address_text(device.addresses[0]) == "127.0.0.1");
  CHECK(device.mtu == nic::Mtu::mtu_1024);
  CHECK(device.guid == 0x0200'00FF'FE12'3456);
  CHECK(device.ack_timeout_min == std::chrono::milliseconds(5));
  CHECK(device.connect_timeout == std::chrono::seconds(7));
  CHECK(device.icrc_sent == IcrcSent::zero);
  CHECK(device.icrc_check == IcrcCheck::off);
  CHECK(device.fabric_path == "/tmp/x/y.fabric");
  CHECK(device.ring_bytes == 65536);
  CHECK(device.capture == "trace.pcapng");
}

TEST_CASE("every variable in the table has a name, a help text and its own option") {
  std::map<std::string, int> seen;
  for (const EnvironmentVariable& variable : environment_variables()) {
    CHECK(std::string(variable.name).starts_with("VERBENA_"));
    CHECK(std::string(variable.help).size() > 10);
    CHECK(++seen[variable.name] == 1);
    if (variable.option != nullptr) {
      CHECK(++seen[variable.option] == 1);
    }
  }
}

TEST_CASE("a wrong variable is an error that names it and says what is right") {
  const auto [name, value, words] = GENERATE(table<std::string, std::string, std::string>({
      {"VERBENA_MTU", "1500", "256, 512, 1024, 2048 or 4096"},
      {"VERBENA_MTU", "1k", "\"1k\" is no number"},
      {"VERBENA_MTU", "99999999999999999999", "is no number"},
      {"VERBENA_ADDRESS", "127.0.0.1,", "\"\" is no IP address"},
      {"VERBENA_ADDRESS", "::g", "\"::g\" is no IP address"},
      {"VERBENA_ADDRESS", "127.0.0.1,127.0.0.1", "given twice"},
      {"VERBENA_ADDRESS", "192.0.2.1",
       "192.0.2.1 is not an address of this host; it has 127.0.0.1"},
      {"VERBENA_VLAN", "0", "a VLAN is 1 to 4094"},
      {"VERBENA_VLAN", "4095", "a VLAN is 1 to 4094"},
      {"VERBENA_RAW", "nope0", "no interface \"nope0\""},
      {"VERBENA_INTERFACE", "nope0", "no interface \"nope0\""},
      {"VERBENA_GUID", "0", "16 hexadecimal digits"},
      {"VERBENA_GUID", "0000000000000000", "16 hexadecimal digits"},
      {"VERBENA_GUID", "02zz000000000000", "16 hexadecimal digits"},
      {"VERBENA_DEVICE", "a/b", "no device name"},
      {"VERBENA_DEVICE", std::string(64, 'a'), "no device name"},
      {"VERBENA_FABRIC", "../x", "absolute path"},
      {"VERBENA_FABRIC", "/x", "absolute path"},
      {"VERBENA_FABRIC", "/tmp/x/", "absolute path"},
      {"VERBENA_TRANSPORT", "ib", "none of roce, iwarp and both"},
      {"VERBENA_RING_KIB", "100", "a power of two"},
      {"VERBENA_RING_KIB", "-64", "a power of two"},
      {"VERBENA_ACK_TIMEOUT_MIN_MS", "-1", "0 to 10000"},
      {"VERBENA_CONFIG", "/nonexistent/verbena.toml", "No such file"},
  }));
  const std::string error = error_of({{name, value}});
  INFO(error);
  CHECK(error.find(name) != std::string::npos);
  CHECK(error.find(words) != std::string::npos);
}

TEST_CASE("address and interface at once contradict each other") {
  CHECK(error_of({{"VERBENA_ADDRESS", "127.0.0.1"}, {"VERBENA_INTERFACE", "lo"}})
            .find("contradict") != std::string::npos);
}

constexpr std::string_view two_devices = R"(
[[device]]
name = "verbena0"
addresses = ["127.0.0.1", "127.0.0.2"]
mtu = 2048
guid = "0x0200000000000001"
profile = "verbena"
ack_timeout_min_ms = 0
connect_timeout_s = 12
fabric = "lab"
ring_kib = 128

[device.limits]
qp_max = 100
qp_rd_atom_max = 4

[[device]]
name = "verbena1"
interface = "lo"
)";

TEST_CASE("a file describes several devices") {
  const auto devices = parse_devices(two_devices, "verbena.toml");
  REQUIRE(devices);
  REQUIRE(devices->size() == 2);
  const DeviceConfig& first = devices->front();
  CHECK(first.addresses.size() == 2);
  CHECK(first.mtu == nic::Mtu::mtu_2048);
  CHECK(first.guid == 0x0200'0000'0000'0001);
  CHECK(first.ack_timeout_min == Duration{0});
  CHECK(first.connect_timeout == std::chrono::seconds(12));
  CHECK(first.fabric_path.find("/lab") != std::string::npos);
  CHECK(first.ring_bytes == 128 * 1024);
  CHECK(first.profile.qp_max == 100);
  CHECK(first.profile.qp_rd_atom_max == 4);
  CHECK(first.profile.cq_max == nic::default_profile().cq_max);
  CHECK(devices->back().name == "verbena1");
  CHECK(devices->back().mtu == nic::Mtu::mtu_4096);
}

TEST_CASE("real devices are wanted by a variable or by the file, and the variable prevails") {
  const auto real_of = [](const Variables& variables) {
    const auto real = load_real_devices(environment_of(variables));
    REQUIRE(real);
    return *real;
  };
  CHECK_FALSE(real_of({}).wanted);
  CHECK(real_of({{"VERBENA_REAL_DEVICES", "1"}}).wanted);
  CHECK_FALSE(real_of({{"VERBENA_REAL_DEVICES", "0"}}).wanted);

  const test::TemporaryDirectory directory;
  const std::string file = directory / "verbena.toml";
  std::ofstream(file) << "real_devices = true\nreal_libibverbs = \"/opt/libibverbs.so.1\"\n"
                         "[[device]]\n";
  CHECK(real_of({{"VERBENA_CONFIG", file}}).wanted);
  CHECK(real_library_candidates(real_of({{"VERBENA_CONFIG", file}})) ==
        std::vector<std::string>{"/opt/libibverbs.so.1"});
  const RealDevices overridden = real_of({{"VERBENA_CONFIG", file},
                                          {"VERBENA_REAL_DEVICES", "0"},
                                          {"VERBENA_REAL_LIBIBVERBS", "/usr/libibverbs.so.1"}});
  CHECK_FALSE(overridden.wanted);
  CHECK(overridden.library == "/usr/libibverbs.so.1");
  CHECK(only_device({{"VERBENA_CONFIG", file}}).name == "verbena0");

  CHECK(error_of({{"VERBENA_REAL_DEVICES", "yes"}}).find("1 or 0") != std::string::npos);
  CHECK(error_of({{"VERBENA_REAL_LIBIBVERBS", "lib.so"}}).find("whole path") != std::string::npos);
  std::ofstream(file) << "real_devices = 1\n[[device]]\n";
  CHECK(error_of({{"VERBENA_CONFIG", file}}).find("real_devices: this must be true or false") !=
        std::string::npos);
}

TEST_CASE("variables override the file, and one chooses a device of it") {
  const test::TemporaryDirectory directory;
  const std::string file = directory / "verbena.toml";
  std::ofstream(file) << two_devices;

  const auto both =
      load_devices(environment_of({{"VERBENA_CONFIG", file}, {"VERBENA_MTU", "512"}}));
  REQUIRE(both);
  CHECK(both->at(0).mtu == nic::Mtu::mtu_512);
  CHECK(both->at(1).mtu == nic::Mtu::mtu_512);

  const DeviceConfig one = only_device(
      {{"VERBENA_CONFIG", file}, {"VERBENA_DEVICE", "verbena1"}, {"VERBENA_ADDRESS", "127.0.0.9"}});
  CHECK(one.name == "verbena1");
  CHECK(roce::to_address_text(one.addresses[0]) == "127.0.0.9");

  CHECK(error_of({{"VERBENA_CONFIG", file}, {"VERBENA_ADDRESS", "127.0.0.9"}})
            .find("choose one with VERBENA_DEVICE") != std::string::npos);
  CHECK(error_of({{"VERBENA_CONFIG", file}, {"VERBENA_DEVICE", "verbena7"}})
            .find("there are verbena0, verbena1") != std::string::npos);
}

TEST_CASE("the GID table of an iWARP device is its Ethernet address") {
  const DeviceConfig iwarp =
      only_device({{"VERBENA_TRANSPORT", "iwarp"}, {"VERBENA_ADDRESS", "127.0.0.9"}});
  const auto gids = nic_config(iwarp).gids;
  REQUIRE(gids.size() == 1);
  CHECK(gids[0].gid.bytes == std::array<std::uint8_t, 16>{0x02, 0x00, 127, 0, 0, 9});
  CHECK_FALSE(iwarp.profile.has_ud);
  CHECK(only_device({}).profile.has_ud);
}

TEST_CASE("an iWARP device is there if it is asked for, behind the RoCE device if both are") {
  CHECK(only_device({}).technology == nic::Technology::roce);
  const DeviceConfig iwarp = only_device({{"VERBENA_TRANSPORT", "iwarp"},
                                          {"VERBENA_MPA_REVISION", "1"},
                                          {"VERBENA_MPA_CRC", "refuse"},
                                          {"VERBENA_MPA_MARKERS", "on"},
                                          {"VERBENA_MPA_PEER_TO_PEER", "off"}});
  CHECK(iwarp.name == "verbena_iw0");
  CHECK(iwarp.technology == nic::Technology::iwarp);
  CHECK(nic_config(iwarp).technology == nic::Technology::iwarp);
  CHECK(iwarp.mpa.revision == 1);
  CHECK(iwarp.mpa.crc == iwarp::CrcPolicy::refuse);
  CHECK(iwarp.mpa.markers);
  CHECK_FALSE(iwarp.mpa.peer_to_peer);
  CHECK(only_device({{"VERBENA_TRANSPORT", "iwarp"}}).mpa.peer_to_peer);
  CHECK_FALSE(iwarp.rdmap_extensions);
  CHECK(iwarp.profile.atomic_cap == nic::AtomicCap::none);
  const DeviceConfig extended =
      only_device({{"VERBENA_TRANSPORT", "iwarp"}, {"VERBENA_RDMAP_EXTENSIONS", "on"}});
  CHECK(extended.rdmap_extensions);
  CHECK(extended.profile.has_rdmap_extensions);
  CHECK(extended.profile.atomic_cap == nic::AtomicCap::hca);

  const auto both = load_devices(environment_of({{"VERBENA_TRANSPORT", "both"},
                                                 {"VERBENA_ADDRESS", "127.0.0.9"},
                                                 {"VERBENA_MPA_CRC", "off"}}));
  REQUIRE(both);
  REQUIRE(both->size() == 2);
  CHECK(both->at(0).name == "verbena0");
  CHECK(both->at(1).name == "verbena_iw0");
  CHECK(both->at(1).mpa.crc == iwarp::CrcPolicy::accept);
  CHECK(both->at(0).addresses == both->at(1).addresses);
  CHECK(both->at(0).guid != both->at(1).guid);
  CHECK(
      only_device({{"VERBENA_TRANSPORT", "both"}, {"VERBENA_DEVICE", "verbena_iw0"}}).technology ==
      nic::Technology::iwarp);

  const auto file = parse_devices(
      "[[device]]\n[[device]]\ntransport = \"iwarp\"\nmpa_crc = \"off\"\nmpa_markers = true\n"
      "rdmap_extensions = true\n",
      "f");
  REQUIRE(file);
  CHECK(file->at(1).name == "verbena_iw0");
  CHECK(file->at(1).mpa.crc == iwarp::CrcPolicy::accept);
  CHECK(file->at(1).profile.has_rdmap_extensions);
}

TEST_CASE("of devices of both transports each takes the settings that are for it") {
  const auto both = load_devices(environment_of({{"VERBENA_TRANSPORT", "both"},
                                                 {"VERBENA_LOSS", "1%"},
                                                 {"VERBENA_ICRC_CHECK", "count"},
                                                 {"VERBENA_ACK_TIMEOUT_MIN_MS", "7"},
                                                 {"VERBENA_MPA_LEGACY_DEPTHS", "on"}}));
  INFO((both ? "" : both.error()));
  REQUIRE(both);
  const DeviceConfig& roce = both->at(0);
  const DeviceConfig& iwarp = both->at(1);
  CHECK_FALSE(roce.faults.empty());
  CHECK(roce.icrc_check == IcrcCheck::count);
  CHECK(roce.ack_timeout_min == std::chrono::milliseconds(7));
  CHECK_FALSE(roce.mpa.legacy_depths);
  CHECK(roce.notes.empty());
  CHECK(iwarp.faults.empty());
  CHECK(iwarp.mpa.legacy_depths);
  // What a user could wait for in vain is said.
  REQUIRE(iwarp.notes.size() == 1);
  CHECK(iwarp.notes.front().find("VERBENA_LOSS isn't for verbena_iw0") != std::string::npos);
}

TEST_CASE("a key of a file that means nothing on its device's transport is refused") {
  const auto [key, words] = GENERATE(table<const char*, const char*>({
      {"icrc_check = \"off\"", "ICRC and ACK timers are RoCE's"},
      {"ack_timeout_min_ms = 5", "ICRC and ACK timers are RoCE's"},
  }));
  const auto devices =
      parse_devices(std::string("[[device]]\ntransport = \"iwarp\"\n") + key + "\n", "f");
  REQUIRE_FALSE(devices);
  CHECK(devices.error().find(words) != std::string::npos);
  CHECK(parse_devices(std::string("[[device]]\n") + key + "\n", "f"));
}

TEST_CASE("what doesn't go together with a transport is refused in words") {
  const auto [first, second, words] = GENERATE(
      table<std::pair<const char*, const char*>, std::pair<const char*, const char*>, const char*>({
          {{"VERBENA_TRANSPORT", "iwarp"}, {"VERBENA_LOSS", "1%"}, "faults are of frames"},
          {{"VERBENA_TRANSPORT", "iwarp"}, {"VERBENA_VLAN", "5"}, "no raw Ethernet and no VLAN"},
          {{"VERBENA_TRANSPORT", "both"}, {"VERBENA_GUID", "0200000000000001"}, "choose one with"},
          {{"VERBENA_TRANSPORT", "both"}, {"VERBENA_DEVICE", "x"}, "verbena0, verbena_iw0"},
          {{"VERBENA_MPA_CRC", "on"}, {"VERBENA_TRANSPORT", "roce"}, "VERBENA_TRANSPORT=iwarp"},
          {{"VERBENA_RDMAP_EXTENSIONS", "on"}, {"VERBENA_TRANSPORT", "roce"}, "devices only"},
          {{"VERBENA_MPA_CRC", "none"}, {"VERBENA_TRANSPORT", "iwarp"}, "\"on\", \"off\""},
          {{"VERBENA_MPA_MARKERS", "1"}, {"VERBENA_TRANSPORT", "iwarp"}, "on or off"},
          {{"VERBENA_MPA_REVISION", "3"}, {"VERBENA_TRANSPORT", "iwarp"}, "1 and 2"},
          {{"VERBENA_ICRC_CHECK", "off"}, {"VERBENA_TRANSPORT", "iwarp"}, "for RoCE devices only"},
          {{"VERBENA_ICRC_SENT", "bad"}, {"VERBENA_TRANSPORT", "iwarp"}, "MPA's CRC"},
          {{"VERBENA_ACK_TIMEOUT_MIN_MS", "1"}, {"VERBENA_TRANSPORT", "iwarp"}, "TCP's timers"},
          {{"VERBENA_DELAY", "1ms"}, {"VERBENA_TRANSPORT", "iwarp"}, "VERBENA_DELAY is for RoCE"},
      }));
  const std::string error = error_of({first, second});
  INFO(error);
  CHECK(error.find(words) != std::string::npos);
}

TEST_CASE("a profile brings its limits, and a file may lower them further") {
  const auto devices = parse_devices(
      "[[device]]\nname = \"x\"\nprofile = \"e810\"\n[device.limits]\nqp_max = 3\n", "f");
  REQUIRE(devices);
  const nic::DeviceProfile& profile = devices->front().profile;
  CHECK(profile.name == "e810");
  CHECK(profile.qp_max == 3);
  CHECK(profile.sge_max == 6);
  CHECK(only_device({{"VERBENA_PROFILE", "rxe"}}).profile.name == "rxe");
  CHECK(only_device({}).profile.name == "verbena");
}

TEST_CASE("a profile of the environment keeps a file's limits where they are lower") {
  const test::TemporaryDirectory directory;
  const std::string file = directory / "verbena.toml";
  std::ofstream(file) << "[[device]]\n[device.limits]\nqp_max = 5000\nmr_max = 7\n";
  const DeviceConfig device = only_device({{"VERBENA_CONFIG", file}, {"VERBENA_PROFILE", "e810"}});
  CHECK(device.profile.qp_max == 4092);
  CHECK(device.profile.mr_max == 7);
}

TEST_CASE("the GID table has the order of the device that is imitated") {
  const auto rows = [](const char* profile) {
    std::vector<std::string> text;
    for (const nic::GidEntry& row :
         nic_config(only_device({{"VERBENA_PROFILE", profile}, {"VERBENA_ADDRESS", "127.0.0.1"}}))
             .gids) {
      const bool is_v2 = row.type == nic::GidEntry::Type::roce_v2;
      text.push_back(roce::to_text(row.gid) + (is_v2 ? " v2" : " v1"));
    }
    return text;
  };
  using Rows = std::vector<std::string>;
  CHECK(rows("cx5") == Rows{"fe80::7fff:fe00:1 v1", "fe80::7fff:fe00:1 v2", "::ffff:127.0.0.1 v1",
                            "::ffff:127.0.0.1 v2"});
  CHECK(rows("rxe") == Rows{"fe80::7fff:fe00:1 v2", "::ffff:127.0.0.1 v2"});
  CHECK(rows("minimal") == Rows{"::ffff:127.0.0.1 v2"});
}

TEST_CASE("a mistake in a file is told with line and column") {
  const auto [toml, words] = GENERATE(table<std::string, std::string>({
      {"", "verbena.toml:1:1: a configuration has 1 to 64 [[device]] tables"},
      {"devices = 1", "verbena.toml:1:1: unknown key \"devices\""},
      {"device = 1", "verbena.toml:1:10: a configuration has"},
      {"device = [1]", "verbena.toml:1:11: a device must be a [[device]] table"},
      {"[[device]]\nmtu = 1500", "verbena.toml:2:7: mtu: an MTU is"},
      {"[[device]]\nmtu = \"1024\"", "verbena.toml:2:7: mtu: this must be a whole number"},
      {"[[device]]\nmtu = 1024.0", "verbena.toml:2:7: mtu: this must be a whole number"},
      {"[[device]]\n  colour = 1", "verbena.toml:2:3: unknown key \"colour\"; a device has name,"},
      {"[[device]]\naddresses = \"127.0.0.1\"",
       "verbena.toml:2:13: addresses: this must be an array"},
      {"[[device]]\naddresses = []", "verbena.toml:2:13: addresses: a device has 1 to 256"},
      {"[[device]]\naddresses = [1]", "verbena.toml:2:13: addresses: this must be an array"},
      {"[[device]]\naddresses = [\"127.0.0.1\"]\ninterface = \"lo\"",
       "verbena.toml:3:13: \"addresses\" and \"interface\" contradict"},
      {"[[device]]\ninterface = \"lo\"\nraw = \"lo\"",
       "verbena.toml:3:7: \"interface\" and \"raw\" contradict"},
      {"[[device]]\nprofile = \"mlx5\"",
       "verbena.toml:2:11: profile: there is no profile \"mlx5\"; there are verbena, cx5, e810, "},
      {"[[device]]\nprofile = \"e810\"\n[device.limits]\nqp_max = 5000",
       "verbena.toml:4:10: limits.qp_max: the value is 1 to 4092"},
      {"[[device]]\nlimits = 3", "verbena.toml:2:10: limits: this must be a table"},
      {"[[device]]\n[device.limits]\nqp_max = 0",
       "verbena.toml:3:10: limits.qp_max: the value is 1"},
      {"[[device]]\n[device.limits]\nqps = 5", "verbena.toml:3:7: limits.qps: there is no limit"},
      {"[[device]]\n[device.limits]\nqp_rd_atom_max = 129",
       "verbena.toml:3:18: limits.qp_rd_atom_max: the value is 1 to 128"},
      {"[[device]]\n[[device]]", "verbena.toml:2:1: there is a device \"verbena0\" already"},
      {"[[device]\n", "verbena.toml:1:10: "},
      {"[[device]]\nname = \"a", "verbena.toml:2:"},
  }));
  const std::string error = parse_error(toml);
  INFO(error);
  CHECK(error.starts_with(words));
}

TEST_CASE("no text makes the parser do more than refuse") {
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    Prng prng(seed);
    std::string text(two_devices);
    for (int change = 0; change < 4; ++change) {
      text[prng.below(text.size())] = static_cast<char>(prng.next());
    }
    text.resize(prng.below(text.size() + 1));
    const auto devices = parse_devices(text, "x");
    CHECK((devices || !devices.error().empty()));
  }
}

TEST_CASE("a configuration file has a limit") {
  const test::TemporaryDirectory directory;
  const std::string file = directory / "big.toml";
  std::ofstream(file) << std::string(config_file_bytes_max + 1, '#');
  CHECK(error_of({{"VERBENA_CONFIG", file}}).find("more than 1024 KiB") != std::string::npos);
  CHECK(error_of({{"VERBENA_CONFIG", directory.path()}}).find("can't read") != std::string::npos);
}

TEST_CASE("faults come from short forms, rules and files, special ones first") {
  const test::TemporaryDirectory directory;
  const std::string file = directory / "rules.toml";
  std::ofstream(file) << "[[fault]]\naction = \"drop\"\nopcode = \"ACKNOWLEDGE\"\n";
  const DeviceConfig device = only_device({{"VERBENA_LOSS", "1%"},
                                           {"VERBENA_DELAY", "50us"},
                                           {"VERBENA_FAULT", "mark every=3; drop count=1"},
                                           {"VERBENA_FAULTS", file},
                                           {"VERBENA_SEED", "7"}});
  std::vector<faults::ActionKind> kinds;
  for (const faults::Rule& rule : device.faults) {
    kinds.push_back(rule.action.kind);
  }
  using Kind = faults::ActionKind;
  CHECK(kinds == std::vector{Kind::mark, Kind::drop, Kind::drop, Kind::drop, Kind::delay});
  CHECK(device.fault_seed == 7);
  CHECK(only_device({}).faults.empty());
}

TEST_CASE("mistakes in faults are told with the variable and the word") {
  const auto [variable, value, word] = GENERATE(table<const char*, const char*, const char*>({
      {"VERBENA_LOSS", "two", "two"},
      {"VERBENA_DUP", "101%", "101%"},
      {"VERBENA_FAULT", "drop; explode", "explode"},
      {"VERBENA_FAULTS", "/nowhere/rules.toml", "/nowhere/rules.toml"},
      {"VERBENA_DELAY", "50", "50"},
      {"VERBENA_SEED", "x", "x"},
  }));
  const std::string error = error_of({{variable, value}});
  INFO(error);
  CHECK(error.starts_with(variable));
  CHECK(error.find(word) != std::string::npos);
}

TEST_CASE("a device of the loopback interface doesn't face the network") {
  CHECK_FALSE(only_device({}).faces_network());
  CHECK_FALSE(only_device({{"VERBENA_ADDRESS", "127.0.0.1,127.1.2.3"}}).faces_network());
}

TEST_CASE("addresses may be of either kind, and an IPv6 one leads to an IPv6 row") {
  const DeviceConfig device = only_device({{"VERBENA_ADDRESS", "::1,127.0.0.1"}});
  CHECK_FALSE(device.faces_network());
  const nic::NicConfig nic = nic_config(device);
  REQUIRE(nic.gids.size() == 6);
  CHECK(roce::to_text(nic.gids[0].gid) == "::1");
  CHECK(roce::to_text(nic.gids[1].gid) == "::ffff:127.0.0.1");
}

TEST_CASE("a VLAN is that of all rows, for devices that make their own frames") {
  CHECK(only_device({}).vlan == std::nullopt);
  const char* profile = GENERATE("verbena", "cx5", "minimal");
  const DeviceConfig device = only_device({{"VERBENA_VLAN", "5"}, {"VERBENA_PROFILE", profile}});
  for (const nic::GidEntry& row : nic_config(device).gids) {
    CHECK(row.vlan == 5);
  }
  DeviceDraft outside;
  REQUIRE(outside.set_vlan(5));
  const auto host = host_addresses();
  const auto face = std::ranges::find_if(
      host, [](const InterfaceAddress& item) { return !roce::is_loopback(item.address); });
  if (face != host.end()) {
    REQUIRE(outside.set_interface(face->interface));
    const auto finished = std::move(outside).finish();
    REQUIRE_FALSE(finished);
    CHECK_THAT(finished.error(), Catch::Contains("use raw Ethernet (VERBENA_RAW)"));
  }
}

TEST_CASE("an interface that is no Ethernet can't be used raw") {
  CHECK_THAT(error_of({{"VERBENA_RAW", "lo"}}), Catch::Contains("\"lo\" is no Ethernet"));
}

TEST_CASE("a raw device has the link-local address of its Ethernet address, and RoCE v1") {
  DeviceConfig device = only_device({});
  device.addresses = {roce::gid_from_text("192.0.2.1").value()};
  device.raw = true;
  device.mac = *inet::MacAddress::from_text("52:54:00:12:34:56");
  const nic::NicConfig nic = nic_config(device);
  REQUIRE(nic.gids.size() == 4);
  CHECK(roce::to_text(nic.gids[1].gid) == "fe80::5054:ff:fe12:3456");
  CHECK(nic.gids[2].type == nic::GidEntry::Type::roce_v1);
  CHECK(nic.gids[2].gid == nic.gids[0].gid);
  device.addresses.push_back(nic.gids[1].gid);
  CHECK(nic_config(device).gids.size() == 4);
  device.raw = false;
  CHECK(nic_config(device).gids.size() == 2);
}

TEST_CASE("loopback addresses are local without being configured, others are not") {
  const auto gid = [](const char* text) { return roce::gid_from_text(text).value(); };
  const std::vector<InterfaceAddress> host = {{"eth0", gid("10.0.0.1")}, {"eth0", gid("fd00::1")}};
  CHECK(is_local(gid("127.9.8.7"), host));
  CHECK(is_local(gid("::1"), host));
  CHECK(is_local(gid("10.0.0.1"), host));
  CHECK(is_local(gid("fd00::1"), host));
  CHECK_FALSE(is_local(gid("10.0.0.2"), host));
  CHECK_FALSE(is_local(gid("fd00::2"), host));
}

}  // namespace
}  // namespace verbena::ports
