// What `verbena dump` prints: a golden text of a small capture, details, JSON, and texts of hostile
// files that reach neither the terminal nor a JSON reader raw.
#include "cli/dump_format.h"

#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "pcap/reader.h"
#include "tests/unit/project_file.h"

namespace verbena::cli {
namespace {

using namespace std::chrono_literals;

template <class Format>
std::string dump(const std::string& capture, Format format) {
  auto reader = pcap::Reader::open(test::project_file("tests/data/captures/") + capture);
  REQUIRE(reader);
  std::string text;
  std::optional<pcap::UnixTime> start;
  for (std::uint64_t number = 1;; ++number) {
    const auto packet = reader->next();
    REQUIRE(packet);
    if (!*packet) {
      return text;
    }
    start = start.value_or(*(*packet)->time);
    const Dissection dissection = dissect((*packet)->frame);
    text += format(DumpedPacket{.number = number,
                                .relative_time = *(*packet)->time - *start,
                                .packet = **packet,
                                .dissection = dissection});
  }
}

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_CASE("lines and details of a small capture are these") {
  CHECK(dump("v4_rc_rnr_exhaust.pcap", format_line) ==
        file_text(test::project_file("tests/data/dump/v4_rc_rnr_exhaust.txt")));
  CHECK(dump("v4_rc_access_write.pcap", format_details) ==
        file_text(test::project_file("tests/data/dump/v4_rc_access_write.details.txt")));
}

/// A packet that is not RoCE, with that comment and interface name.
std::string with_texts(std::string (*format)(const DumpedPacket&), std::string_view comment,
                       std::string_view interface_name) {
  const pcap::Packet packet{.interface_name = interface_name,
                            .time = pcap::UnixTime(1s),
                            .direction = pcap::Direction::outbound,
                            .comments = std::span(&comment, 1)};
  const Dissection dissection;
  return format({.number = 1, .relative_time = 0ns, .packet = packet, .dissection = dissection});
}

TEST_CASE("a comment and a direction are in the line, the interface in the details") {
  const std::string line = with_texts(format_line, "retransmission 2", "verbena0");
  CHECK_THAT(line, Catch::Contains("  out  ") && Catch::EndsWith("  # retransmission 2\n"));
  CHECK_THAT(with_texts(format_details, "", "verbena0"), Catch::Contains("interface verbena0\n"));
}

TEST_CASE("what a terminal would obey is shown, not sent") {
  CHECK(printable("plain, äöü €") == "plain, äöü €");
  CHECK(printable("\x1B[31m\n\x7F") == "\\x1b[31m\\x0a\\x7f");
  CHECK(printable("\xC2\x9B") == "\\xc2\x9B");
  const std::string line = with_texts(format_line, "a\nb\x1B]0;x", "");
  CHECK_THAT(line, Catch::Contains("# a\\x0ab\\x1b]0;x\n"));
  CHECK(std::ranges::count(line, '\n') == 1);
}

TEST_CASE("times before the first packet are negative") {
  const pcap::Packet packet{};
  const Dissection dissection;
  CHECK_THAT(
      format_line(
          {.number = 1, .relative_time = -1500ms, .packet = packet, .dissection = dissection}),
      Catch::Contains(" -1.500000000 "));
  CHECK_THAT(
      format_line(
          {.number = 1, .relative_time = std::nullopt, .packet = packet, .dissection = dissection}),
      Catch::Contains("  -  "));
}

TEST_CASE("JSON has a line for each packet and a member for each layer") {
  std::istringstream lines(dump("v4_rc_access_write.pcap", format_json));
  std::vector<nlohmann::json> packets;
  for (std::string line; std::getline(lines, line);) {
    packets.push_back(nlohmann::json::parse(line));
  }
  REQUIRE(packets.size() == 3);
  CHECK(packets[0]["frame"]["number"] == 1);
  CHECK(packets[0]["bth"]["opcode"] == 10);
  CHECK(packets[0]["bth"]["opcode_text"] == "RC RDMA WRITE Only");
  CHECK(packets[0]["bth"]["psn"] == 0x12'3450);
  CHECK(packets[0]["bth"]["ack_request"] == true);
  CHECK(packets[0]["reth"]["va"] == "0x000000003ac6b000");
  CHECK(packets[0]["reth"]["dma_length"] == 64);
  CHECK(packets[0]["icrc"]["status"] == "good");
  CHECK(packets[1]["aeth"]["syndrome"] == 0x62);
  CHECK(packets[1]["aeth"]["syndrome_text"] == "NAK remote access error");
  CHECK(packets[1]["source"] == "10.9.0.1");
}

TEST_CASE("JSON stays JSON when a capture's texts are no UTF-8") {
  const std::string json = with_texts(format_json, "\xFF\xFE\"", "\x80");
  const auto parsed = nlohmann::json::parse(json);
  CHECK(parsed["frame"]["comments"].size() == 1);
  CHECK(parsed["frame"]["direction"] == "out");
  CHECK(parsed["frame"]["time"] == "1.000000000");
}

}  // namespace
}  // namespace verbena::cli
