// The readers: classic pcap in all its forms, pcapng in both byte orders with everything that a
// capture of another program may hold, and what they say about files that are no captures.
#include "pcap/reader.h"

#include <catch2/catch.hpp>
#include <limits>

#include "base/prng.h"
#include "pcap/pcapng_format.h"
#include "tests/unit/pcap/support.h"

namespace verbena::pcap::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t section_header = 0x0A0D'0D0A;

RawBytes section(bool is_swapped) {
  RawBytes body(is_swapped);
  body.u32(byte_order_magic).u16(1).u16(0).u64(section_length_unknown);
  return RawBytes(is_swapped).block(section_header, body);
}

RawBytes interface(bool is_swapped, std::uint16_t link_type = 1, std::uint32_t snap_bytes = 0) {
  RawBytes body(is_swapped);
  body.u16(link_type).u16(0).u32(snap_bytes);
  return RawBytes(is_swapped).block(1, body);
}

std::string error_of(ByteView capture) {
  const ReadAll all = read_all(capture);
  return all.error ? all.error->text : "no error";
}

TEST_CASE("classic pcap is read in both byte orders and both resolutions") {
  for (const bool is_swapped : {false, true}) {
    for (const std::uint32_t magic : {magic_microseconds, magic_nanoseconds}) {
      const Bytes frame = counting_frame(70);
      RawBytes file = classic_header(magic, is_swapped);
      file.u32(1'700'000'000).u32(123'456).u32(70).u32(1500).raw(frame);
      const ReadAll all = read_all(file.bytes());
      REQUIRE_FALSE(all.error);
      REQUIRE(all.packets.size() == 1);
      const OwnedPacket& packet = all.packets[0];
      CHECK(packet.frame == frame);
      CHECK(packet.wire_bytes == 1500);
      CHECK(packet.offset == 24);
      CHECK(packet.direction == Direction::unknown);
      CHECK(packet.time ==
            UnixTime(1'700'000'000s + (magic == magic_nanoseconds ? 123'456ns : 123'456us)));
    }
  }
}

TEST_CASE("pcapng is read in both byte orders") {
  for (const bool is_swapped : {false, true}) {
    RawBytes idb(is_swapped);
    idb.u16(1).u16(0).u32(0);
    idb.u16(2).u16(3).text("eth").number(std::uint8_t{0});                    // if_name
    idb.u16(9).u16(1).number(std::uint32_t{is_swapped ? 0x0900'0000U : 9U});  // if_tsresol
    idb.u16(14).u16(8).u64(100);                                              // if_tsoffset
    idb.u16(0).u16(0);
    RawBytes epb(is_swapped);
    epb.u32(0).u32(0).u32(5).u32(3).u32(60).text("abc").number(std::uint8_t{0});
    epb.u16(1).u16(2).text("hi").u16(0);
    epb.u16(2).u16(4).u32(0x101);  // epb_flags: inbound, unicast
    epb.u16(1).u16(4).text("more");
    epb.u16(0).u16(0);
    RawBytes file(is_swapped);
    file.raw(section(is_swapped).bytes()).block(1, idb).block(0xBAD, RawBytes()).block(6, epb);
    const ReadAll all = read_all(file.bytes());
    INFO((all.error ? all.error->text : ""));
    REQUIRE_FALSE(all.error);
    REQUIRE(all.packets.size() == 1);
    const OwnedPacket& packet = all.packets[0];
    CHECK(packet.time == UnixTime(100s + 5ns));
    CHECK(packet.wire_bytes == 60);
    CHECK(packet.frame.size() == 3);
    CHECK(packet.interface_name == "eth");
    CHECK(packet.direction == Direction::inbound);
    CHECK(packet.comments == std::vector<std::string>{"hi", "more"});
  }
}

TEST_CASE("a second section begins anew, in its own byte order") {
  RawBytes first_packet;
  first_packet.u32(1).u32(0).u32(1).u32(0).u32(0);
  RawBytes second_packet(true);
  second_packet.u32(0).u32(0).u32(2).u32(0).u32(0);
  RawBytes file;
  file.raw(section(false).bytes()).raw(interface(false).bytes()).raw(interface(false).bytes());
  file.block(6, first_packet);
  RawBytes swapped(true);
  swapped.raw(section(true).bytes()).raw(interface(true).bytes()).block(6, second_packet);
  // Interface 1 isn't described in the second section.
  RawBytes stranger(true);
  stranger.u32(1).u32(0).u32(3).u32(0).u32(0);
  swapped.block(6, stranger);
  file.raw(swapped.bytes());
  const ReadAll all = read_all(file.bytes());
  REQUIRE(all.packets.size() == 2);
  CHECK(all.packets[0].time == UnixTime(1us));
  CHECK(all.packets[1].time == UnixTime(2us));
  REQUIRE(all.error);
  CHECK(all.error->kind == ReadError::Kind::garbage);
  CHECK_THAT(all.error->text, Catch::Contains("a packet of interface 1, of which there is no"));
}

TEST_CASE("timestamps of any resolution become nanoseconds, and hostile ones saturate") {
  const auto time_at = [](std::uint8_t resolution, std::uint64_t ticks,
                          std::int64_t offset = 0) -> std::optional<UnixTime> {
    RawBytes idb;
    idb.u16(1).u16(0).u32(0);
    idb.u16(9).u16(1).number(std::uint32_t{resolution});
    idb.u16(14).u16(8).number(offset);
    RawBytes epb;
    epb.u32(0).u32(static_cast<std::uint32_t>(ticks >> 32)).u32(static_cast<std::uint32_t>(ticks));
    epb.u32(0).u32(0);
    RawBytes file;
    file.raw(section(false).bytes()).block(1, idb).block(6, epb);
    const ReadAll all = read_all(file.bytes());
    return all.packets.empty() ? std::nullopt : all.packets[0].time;
  };
  CHECK(time_at(0, 7) == UnixTime(7s));
  CHECK(time_at(3, 7001) == UnixTime(7s + 1ms));
  CHECK(time_at(9, 7'000'000'001) == UnixTime(7s + 1ns));
  CHECK(time_at(12, 7'000'000'001'999) == UnixTime(7s + 1ns));
  CHECK(time_at(0x80 | 10, 1024 + 512) == UnixTime(1500ms));
  CHECK(time_at(0x80 | 63, ~std::uint64_t{0}) == UnixTime(1999'999'999ns));
  CHECK(time_at(9, 5, -3) == UnixTime(-3s + 5ns));
  CHECK(time_at(0, ~std::uint64_t{0}, std::numeric_limits<std::int64_t>::max()).has_value());
  CHECK(time_at(0, 0, std::numeric_limits<std::int64_t>::min()).has_value());
  CHECK_FALSE(time_at(20, 1).has_value());
  CHECK_FALSE(time_at(0x80 | 64, 1).has_value());
}

TEST_CASE("simple and obsolete packet blocks are read") {
  RawBytes simple;
  simple.u32(100).text("abcdefgh");  // 100 on the wire, 8 kept
  RawBytes obsolete;
  obsolete.u16(0).u16(7).u32(0).u32(9).u32(4).u32(4).text("wxyz");
  RawBytes file;
  file.raw(section(false).bytes()).raw(interface(false, 1, 8).bytes());
  file.block(3, simple).block(2, obsolete);
  const ReadAll all = read_all(file.bytes());
  REQUIRE_FALSE(all.error);
  REQUIRE(all.packets.size() == 2);
  CHECK_FALSE(all.packets[0].time);
  CHECK(all.packets[0].wire_bytes == 100);
  CHECK(all.packets[0].frame.size() == 8);
  CHECK(all.packets[1].time == UnixTime(9us));
  CHECK(all.packets[1].frame.size() == 4);
}

TEST_CASE("a frame that is not Ethernet is refused with its link type") {
  CHECK(error_of(classic_header(magic_microseconds, false, 101).bytes()) ==
        "the frames are not Ethernet but of link type RAW");
  RawBytes packet;
  packet.u32(0).u32(0).u32(0).u32(0).u32(0);
  RawBytes file;
  file.raw(section(false).bytes()).raw(interface(false, 276).bytes()).block(6, packet);
  CHECK(error_of(file.bytes()) == "the frames are not Ethernet but of link type 276");
}

TEST_CASE("what is no capture is told") {
  CHECK(error_of({}) == "the file is empty");
  CHECK(error_of(RawBytes().u16(0xC3D4).bytes()) ==
        "the file ends at byte 2: no capture is that short");
  CHECK(error_of(RawBytes().text("#!/bin/sh\n").bytes()) ==
        "not a capture: it begins like neither pcap nor pcapng");
  const auto missing = Reader::open("/no/such/file");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().text == "No such file or directory");
  const auto directory = Reader::open("/");
  REQUIRE_FALSE(directory);
  CHECK(directory.error().text == "Is a directory");
}

TEST_CASE("garbage in pcapng is told at the offset of its block") {
  RawBytes good;
  good.raw(section(false).bytes()).raw(interface(false).bytes());
  const std::string at = "garbage at byte " + std::to_string(good.bytes().size()) + ": ";
  const auto after_good = [&](const RawBytes& tail) {
    return error_of(RawBytes(good).raw(tail.bytes()).bytes());
  };
  CHECK(after_good(RawBytes().u32(6).u32(8)) == at + "a block of type 6 with length 8");
  CHECK(after_good(RawBytes().u32(6).u32(33)) == at + "a block of type 6 with length 33");
  CHECK(after_good(RawBytes().u32(6).u32(0xFFFF'FFFC)) ==
        at + "a block of type 6 with length 4294967292");
  CHECK(after_good(RawBytes().u32(99).u32(12).u32(16)) ==
        at + "a block whose length is 12 at its begin but 16 at its end");
  CHECK(after_good(RawBytes().block(6, RawBytes().u32(0))) ==
        at + "a packet block that is too short");
  CHECK(after_good(RawBytes().block(6, RawBytes().u32(0).u32(0).u32(0).u32(5).u32(5).u32(0))) ==
        at + "a packet block of which the packet, 5 bytes, sticks out");
  CHECK(after_good(RawBytes().block(
            6, RawBytes().u32(0).u32(0).u32(0).u32(0).u32(0).u16(1).u16(5).u32(0))) ==
        at + "a packet block with broken options");
  CHECK(after_good(RawBytes().block(3, RawBytes().u32(1))) ==
        at + "a simple packet block that is shorter than its packet");
  CHECK(after_good(RawBytes().block(1, RawBytes().u32(1))) ==
        at + "an interface description that is too short");
  CHECK(after_good(RawBytes().block(section_header, RawBytes().u32(1))) ==
        at + "a section header without a byte-order magic");
  CHECK(after_good(RawBytes().block(section_header, RawBytes().u32(byte_order_magic))) ==
        at + "a section header that is too short");
}

TEST_CASE("garbage in classic pcap is told at the offset of its record") {
  RawBytes file = classic_header(magic_microseconds);
  file.u32(0).u32(0).u32(4).u32(4).text("abcd");
  file.u32(0).u32(0).u32(0xFFFF'FFFF).u32(4).text("abcd");
  const ReadAll all = read_all(file.bytes());
  CHECK(all.packets.size() == 1);
  REQUIRE(all.error);
  CHECK(all.error->kind == ReadError::Kind::garbage);
  CHECK(all.error->offset == 44);
  CHECK_THAT(all.error->text, Catch::StartsWith("garbage at byte 44: "));
}

TEST_CASE("no damage to a capture crashes the readers or makes them run on") {
  Bytes ng;
  append_section_header(ng, {.hardware = "h", .os = "o"});
  append_interface_description(ng, {.name = "i", .description = "d"});
  const Bytes frame = counting_frame(33);
  constexpr std::string_view comment = "comment";
  for (int i = 0; i < 3; ++i) {
    append_enhanced_packet(
        ng, {.frame = frame, .direction = Direction::inbound, .comments = std::span(&comment, 1)});
  }
  RawBytes classic = classic_header(magic_nanoseconds);
  for (std::uint32_t i = 0; i < 3; ++i) {
    classic.u32(i).u32(i).u32(33).u32(33).raw(frame);
  }
  Prng prng(20);
  for (const Bytes& whole : {ng, classic.bytes()}) {
    for (int round = 0; round < 20'000; ++round) {
      Bytes broken = whole;
      for (std::uint64_t n = prng.below(4) + 1; n > 0; --n) {
        broken[prng.below(broken.size())] = static_cast<std::byte>(prng.below(256));
      }
      const ReadAll all = read_all(broken);
      REQUIRE(all.packets.size() <= broken.size());
      for (const OwnedPacket& packet : all.packets) {
        REQUIRE(packet.frame.size() <= broken.size());
      }
    }
  }
}

}  // namespace
}  // namespace verbena::pcap::test
