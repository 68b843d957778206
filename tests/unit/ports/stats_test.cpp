// What a device publishes and what its readers make of it, hostile files included.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "ports/stats_file.h"
#include "ports/stats_publisher.h"
#include "ports/stats_reader.h"
#include "tests/unit/ports/engine_fixture.h"
#include "tests/unit/ports/fabric_fixture.h"

namespace verbena::ports {
namespace {

using namespace std::chrono_literals;
using test::connect;
using test::eventually;
using test::Node;
using test::TemporaryDirectory;

std::uint64_t value_of(const Counters::Values& values, Counter counter) {
  return values[static_cast<std::size_t>(counter)];
}

FabricStatistics read(const std::string& path) {
  auto statistics = read_statistics(path);
  REQUIRE(statistics);
  return std::move(*statistics);
}

/// A Nic that publishes, without an engine.
struct Publishing {
  explicit Publishing(const std::string& fabric_path)
      : path(fabric_path),
        fabric(test::join_fabric(path)),
        nic(nic::default_profile(), nic_config(test::config_at(path)), 1),
        publisher(path, fabric->self(), "verbena0") {
    nic.add_qpn_block(*fabric->take_qpn_block(), block_qpns);
    pd = nic.alloc_pd().value();
    cq = nic.create_cq(16, 0).value();
  }

  void add_qps(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      REQUIRE(nic.create_qp(*pd, {.send_cq = cq, .recv_cq = cq}));
    }
  }
  void publish(std::int64_t seconds = 1) {
    publisher.publish(Time(std::chrono::seconds(seconds)), nic, {});
  }
  [[nodiscard]] std::string file() const { return stats_path(path, slot_of(fabric->self())); }

  std::string path;
  std::unique_ptr<Fabric> fabric;
  nic::Nic nic;
  StatsPublisher publisher;
  nic::Pd* pd = nullptr;
  nic::Cq* cq = nullptr;
};

/// Bytes of a file, to damage it.
std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void overwrite(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
}

}  // namespace

TEST_CASE("a device tells what it and its queue pairs counted, and whose they are") {
  const TemporaryDirectory directory;
  Node a(directory / "a.fabric");
  Node b(directory / "a.fabric");
  connect(a, b);
  REQUIRE(a.post_send(WrOpcode::rdma_write, 1, a.sge(0, 5000), &b));
  REQUIRE(a.wait().status == WcStatus::success);

  FabricStatistics statistics;
  // Both publish shortly after they did something, asleep or not.
  REQUIRE(eventually([&] {
    statistics = read(directory / "a.fabric");
    return statistics.devices.size() == 2 &&
           value_of(statistics.devices[0].counters, Counter::sent_pkts) == 5 &&
           value_of(statistics.devices[1].counters, Counter::rcvd_pkts) == 5;
  }));
  CHECK(statistics.failures.empty());
  const DeviceStatistics& sender = statistics.devices[0];
  CHECK(sender.pid == getpid());
  CHECK(sender.program == program_invocation_short_name);
  CHECK(sender.device == "verbena0");
  CHECK(sender.objects.mrs == 1);
  REQUIRE(sender.qps.size() == 1);
  const QpStatistics& qp = sender.qps[0];
  CHECK(qp.qpn == a.qpn());
  CHECK(qp.peer_qpn == b.qpn());
  CHECK(qp.peer == roce::gid_from_ipv4({{127, 0, 0, 1}}));
  CHECK(qp.type == nic::QpType::rc);
  CHECK(qp.state == nic::QpState::rts);
  CHECK(value_of(qp.counters, Counter::tx_bytes) == value_of(sender.counters, Counter::tx_bytes));
}

TEST_CASE("a device that does nothing publishes nothing and sleeps") {
  const TemporaryDirectory directory;
  Node node(directory / "a.fabric");
  const auto published = [&] { return read(directory / "a.fabric").devices.at(0).published; };
  const auto switches = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
  };
  // The last thing that happened was the making of the queue pair.
  REQUIRE(eventually([&] { return read(directory / "a.fabric").devices.at(0).objects.qps == 1; }));
  const Time last = published();
  // The thread may still be on its way to sleep. Then it has no reason to wake: our own sleep is
  // the only one of a time in which something would be published.
  CHECK(eventually([&] {
    const long before = switches();
    std::this_thread::sleep_for(3 * publishing_interval);
    return switches() - before <= 1;
  }));
  CHECK(published() == last);
}

TEST_CASE("a file grows with the number of queue pairs, up to its limit") {
  const TemporaryDirectory directory;
  Publishing device(directory / "a.fabric");
  device.publish();
  CHECK(std::filesystem::file_size(device.file()) == stats_file_bytes(listed_qps_min));
  device.add_qps(listed_qps_min + 1);
  device.publish();
  CHECK(std::filesystem::file_size(device.file()) == stats_file_bytes(2 * listed_qps_min));
  CHECK(read(device.path).devices.at(0).qps.size() == listed_qps_min + 1);
  device.add_qps(listed_qps_max);
  device.publish();
  const auto statistics = read(device.path);
  CHECK(statistics.devices.at(0).qps.size() == listed_qps_max);
  CHECK(statistics.devices.at(0).objects.qps == listed_qps_min + 1 + listed_qps_max);
}

TEST_CASE("a slot that is cleared takes its statistics along") {
  const TemporaryDirectory directory;
  const auto witness = test::join_fabric(directory / "a.fabric");
  std::string file;
  {
    Publishing device(directory / "a.fabric");
    device.publish();
    file = device.file();
    CHECK(std::filesystem::exists(file));
  }
  CHECK_FALSE(std::filesystem::exists(file));
  CHECK(read(directory / "a.fabric").devices.empty());
}

TEST_CASE("who has closed its statistics leaves no file behind, whatever happens later") {
  const TemporaryDirectory directory;
  const auto witness = test::join_fabric(directory / "a.fabric");
  Publishing device(directory / "a.fabric");
  device.publish();
  const std::string file = device.file();
  device.publisher.close();
  device.fabric.reset();
  CHECK_FALSE(std::filesystem::exists(file));
  // Another thread of a program that exits.
  device.publish(2);
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("a reader believes nothing that doesn't fit together") {
  const TemporaryDirectory directory;
  Publishing device(directory / "a.fabric");
  device.add_qps(1);
  device.publish();
  const std::string good = contents_of(device.file());
  const auto failure_with = [&](const std::string& contents) {
    overwrite(device.file(), contents);
    const auto statistics = read(device.path);
    CHECK(statistics.devices.empty());
    return statistics.failures.size() == 1 ? statistics.failures[0] : "";
  };
  const auto changed = [&](std::size_t offset, char by) {
    std::string contents = good;
    contents[offset] = static_cast<char>(contents[offset] + by);
    return contents;
  };

  CHECK(failure_with("").ends_with("is no statistics file"));
  CHECK(failure_with(changed(offsetof(StatsHeader, magic), 1)).ends_with("is no statistics file"));
  CHECK(failure_with(good.substr(0, good.size() - 1)).ends_with("is damaged"));
  CHECK(failure_with(good + "x").ends_with("is damaged"));
  CHECK(failure_with(changed(offsetof(StatsHeader, listed_qps), 1)).ends_with("is damaged"));
  CHECK(failure_with(changed(offsetof(StatsHeader, listed_qps) + 3, 1)).ends_with("is damaged"));
  CHECK(failure_with(changed(offsetof(StatsHeader, life), 1)).ends_with("is damaged"));
  CHECK(failure_with(changed(offsetof(StatsHeader, published), -1)).ends_with("is damaged"));
  CHECK(failure_with(changed(offsetof(StatsHeader, version), 1)).find("version") !=
        std::string::npos);
  CHECK(failure_with(changed(offsetof(StatsHeader, names_hash), 1)).find("version") !=
        std::string::npos);
}

TEST_CASE("a device that has told nothing yet is left out") {
  const TemporaryDirectory directory;
  Publishing device(directory / "a.fabric");
  const auto statistics = read(device.path);
  CHECK(statistics.devices.empty());
  CHECK(statistics.failures.empty());
}

TEST_CASE("a record that makes no sense is left out, and a name is made printable") {
  const TemporaryDirectory directory;
  Publishing device(directory / "a.fabric");
  device.add_qps(2);
  device.publish();
  std::string contents = contents_of(device.file());
  const std::size_t snapshot = snapshot_offset(listed_qps_min, 1);
  contents[snapshot + sizeof(SnapshotHead) + offsetof(QpRecord, state)] = 99;
  contents[offsetof(StatsHeader, program)] = '\033';
  const std::uint32_t many = 0xFFFF'FFFF;
  contents.replace(snapshot + offsetof(SnapshotHead, qps_listed), sizeof(many),
                   reinterpret_cast<const char*>(&many), sizeof(many));
  overwrite(device.file(), contents);
  const auto statistics = read(device.path);
  REQUIRE(statistics.devices.size() == 1);
  CHECK(statistics.devices[0].program.starts_with('?'));
  // The second one, and none of the places behind it: those have no type.
  CHECK(statistics.devices[0].qps.size() == 1);
}

}  // namespace verbena::ports
