// The table of `verbena top`: rates from differences, and what is shown first.
#include "cli/top_table.h"

#include <catch2/catch.hpp>
#include <chrono>

#include "proto/roce/gid.h"

namespace verbena::cli {
namespace {

using namespace std::chrono_literals;

std::uint64_t& value(Counters::Values& values, Counter counter) {
  return values[static_cast<std::size_t>(counter)];
}

ports::DeviceStatistics device_of(std::int32_t pid, Duration published, std::uint64_t bytes_out) {
  ports::DeviceStatistics device;
  device.life = ports::SlotLife{static_cast<std::uint64_t>(pid)};
  device.pid = pid;
  device.program = "program" + std::to_string(pid);
  device.device = "verbena0";
  device.published = Time(published);
  device.objects.qps = 1;
  value(device.counters, Counter::tx_bytes) = bytes_out;
  ports::QpStatistics qp;
  qp.qpn = Qpn{0x1000};
  qp.type = nic::QpType::rc;
  qp.state = nic::QpState::rts;
  qp.peer_qpn = Qpn{0x2000};
  qp.peer = roce::gid_from_ipv4({{127, 0, 0, 1}});
  value(qp.counters, Counter::tx_bytes) = bytes_out;
  device.qps.push_back(qp);
  return device;
}

Observed observed_at(Duration time, std::vector<ports::DeviceStatistics> devices) {
  return {.time = Time(time), .devices = std::move(devices), .failures = {}};
}

bool has_word(const std::string& line, const std::string& word) {
  return (" " + line + " ").find(" " + word + " ") != std::string::npos;
}

}  // namespace

TEST_CASE("numbers are shortened to what fits four characters") {
  CHECK(short_number(0) == "0");
  CHECK(short_number(0.5) == "0.5");
  CHECK(short_number(9.96) == "10");
  CHECK(short_number(999.4) == "999");
  CHECK(short_number(999.6) == "1.0K");
  CHECK(short_number(12'345) == "12K");
  CHECK(short_number(999'900) == "1.0M");
  CHECK(short_number(2.5e9) == "2.5G");
}

TEST_CASE("a rate is the difference by the time between two snapshots") {
  const auto before = observed_at(10s, {device_of(1, 10s, 5'000)});
  const auto now = observed_at(12s, {device_of(1, 12s, 9'000)});
  const auto lines = top_table(before, now, 100);
  REQUIRE(lines.size() == 6);
  CHECK(lines[0] == "1 open devices, 1 queue pairs");
  CHECK(has_word(lines[2], "2.0K"));
  CHECK(has_word(lines[5], "2.0K"));
  CHECK(has_word(lines[5], "0x001000"));
  CHECK(has_word(lines[5], "127.0.0.1 QP 0x002000"));
}

TEST_CASE("a burst after a quiet hour isn't spread over the hour") {
  const auto before = observed_at(3600s, {device_of(1, 1s, 0)});
  const auto now = observed_at(3601s, {device_of(1, 3601s, 1'100)});
  // 1100 bytes since 100 ms before the first look.
  CHECK(has_word(top_table(before, now, 100)[2], "1.0K"));
}

TEST_CASE("a device that published nothing since has rates of zero") {
  const auto device = device_of(1, 1s, 5'000);
  const auto lines = top_table(observed_at(10s, {device}), observed_at(11s, {device}), 100);
  CHECK_FALSE(has_word(lines[2], "5.0K"));
}

TEST_CASE("the busiest come first, those that are new have no rates yet") {
  const auto before = observed_at(10s, {device_of(1, 10s, 0), device_of(2, 10s, 0)});
  const auto now = observed_at(
      11s, {device_of(1, 11s, 100), device_of(2, 11s, 200), device_of(3, 11s, 1'000'000)});
  const auto lines = top_table(before, now, 100);
  CHECK(has_word(lines[2], "program2"));
  CHECK(has_word(lines[3], "program1"));
  CHECK(has_word(lines[4], "program3"));
  CHECK_FALSE(has_word(lines[4], "1.0M"));
}

TEST_CASE("drops are told with their reasons, and what can't be read is said") {
  const auto before = observed_at(10s, {device_of(1, 10s, 0)});
  auto device = device_of(1, 11s, 0);
  value(device.counters, Counter::rx_icrc_encapsulated) = 3;
  value(device.counters, Counter::rx_drop_unknown_qp) = 2;
  auto now = observed_at(11s, {device});
  now.failures = {"process 7 doesn't tell"};
  const auto lines = top_table(before, now, 100);
  CHECK(has_word(lines[2], "5.0"));
  CHECK(lines[3] == "dropped by process 1: rx_icrc_encapsulated 3, rx_drop_unknown_qp 2");
  CHECK(lines[4] == "process 7 doesn't tell");
}

TEST_CASE("a table has no more rows than the screen") {
  const auto now = observed_at(11s, {device_of(1, 11s, 0), device_of(2, 11s, 0)});
  CHECK(top_table(now, now, 3).size() == 3);
}

}  // namespace verbena::cli
