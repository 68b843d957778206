// MPA start frames: written and read bit for bit, in any pieces, and what is none is refused at the
// first byte that tells.
#include "proto/iwarp/start_frame.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/unit/wire_support/hex.h"

namespace verbena::iwarp {
namespace {

using test::Bytes;
using test::from_hex;
using test::to_hex;

// "MPA ID Req Frame" and "MPA ID Rep Frame".
const std::string request_key = "4d504120494420526571204672616d65";
const std::string reply_key = "4d504120494420526570204672616d65";

Bytes emitted(const StartFrame& frame) {
  Bytes bytes(start_frame_bytes(frame).value());
  emit_start_frame(bytes, frame);
  return bytes;
}

/// The frame that `bytes` are, which must be one and no more.
StartFrame read_whole(StartFrameReader& reader, ByteView bytes) {
  const auto frame = reader.take(bytes);
  REQUIRE(frame);
  REQUIRE(*frame);
  REQUIRE(bytes.empty());
  return **frame;
}

StartError::Kind error_of(StartKind kind, const std::string& hex) {
  const Bytes bytes = from_hex(hex);
  ByteView stream = bytes;
  StartFrameReader reader(kind);
  const auto frame = reader.take(stream);
  REQUIRE_FALSE(frame);
  CHECK_FALSE(describe(frame.error()).empty());
  return frame.error().kind;
}

}  // namespace

TEST_CASE("a start frame of revision 1 is the key, flags, revision, length and private data") {
  const Bytes data = from_hex("0102030405");
  const StartFrame frame{.kind = StartKind::request,
                         .revision = 1,
                         .markers = true,
                         .crc = true,
                         .reject = false,
                         .enhanced = std::nullopt,
                         .private_data = data};
  const Bytes bytes = emitted(frame);
  CHECK(to_hex(bytes) == request_key + "c0010005" + "0102030405");

  StartFrameReader reader(StartKind::request);
  const StartFrame read = read_whole(reader, bytes);
  CHECK(read.revision == 1);
  CHECK(read.markers);
  CHECK(read.crc);
  CHECK_FALSE(read.reject);
  CHECK_FALSE(read.enhanced);
  CHECK(to_hex(read.private_data) == "0102030405");
}

TEST_CASE("the parameters of revision 2 stand in front of the private data, flag by flag") {
  struct Row {
    EnhancedParameters parameters;
    std::string hex;
  };
  const Row rows[] = {
      {{.depths = {.ird = 0x1234, .ord = 0x0567}, .peer_to_peer = false, .rtr = {}}, "12340567"},
      {{.depths = {.ird = 1, .ord = 2}, .peer_to_peer = true, .rtr = {}}, "80010002"},
      {{.depths = {.ird = 1, .ord = 2}, .peer_to_peer = false, .rtr = {RtrType::zero_length_fpdu}},
       "40010002"},
      {{.depths = {.ird = 1, .ord = 2}, .peer_to_peer = false, .rtr = {RtrType::write}},
       "00018002"},
      {{.depths = {.ird = 1, .ord = 2}, .peer_to_peer = false, .rtr = {RtrType::read}}, "00014002"},
      {{.depths = {.ird = read_depth_open, .ord = read_depth_open},
        .peer_to_peer = true,
        .rtr = {RtrType::zero_length_fpdu, RtrType::write, RtrType::read}},
       "ffffffff"},
  };
  for (const Row& row : rows) {
    INFO(row.hex);
    const StartFrame frame{.kind = StartKind::reply,
                           .revision = 2,
                           .markers = false,
                           .crc = false,
                           .reject = true,
                           .enhanced = row.parameters,
                           .private_data = {}};
    const Bytes bytes = emitted(frame);
    CHECK(to_hex(bytes) == reply_key + "30020004" + row.hex);
    StartFrameReader reader(StartKind::reply);
    const StartFrame read = read_whole(reader, bytes);
    CHECK(read.reject);
    REQUIRE(read.enhanced);
    CHECK(*read.enhanced == row.parameters);
    CHECK(read.private_data.empty());
  }
}

TEST_CASE("a start frame is the same however the stream is split, and takes none of what follows") {
  const Bytes data = from_hex("aabbccddeeff");
  const StartFrame frame{.kind = StartKind::reply,
                         .revision = 2,
                         .enhanced = EnhancedParameters{.depths = {.ird = 3, .ord = 4}},
                         .private_data = data};
  const Bytes bytes = emitted(frame);
  Bytes stream = bytes;
  stream.push_back(std::byte{0x77});
  for (std::size_t first = 0; first <= stream.size(); ++first) {
    for (std::size_t second = first; second <= stream.size(); ++second) {
      StartFrameReader reader(StartKind::reply);
      std::optional<StartFrame> read;
      std::size_t left = 0;
      const std::size_t ends[] = {first, second, stream.size()};
      std::size_t from = 0;
      for (const std::size_t end : ends) {
        ByteView piece = ByteView(stream).subspan(from, end - from);
        from = end;
        if (!read) {
          const auto result = reader.take(piece);
          REQUIRE(result);
          read = *result;
        }
        left += piece.size();
      }
      REQUIRE(read);
      REQUIRE(left == 1);
      REQUIRE(to_hex(read->private_data) == "aabbccddeeff");
      REQUIRE(to_hex(reader.bytes()) == to_hex(bytes));
    }
  }
}

TEST_CASE("what is no start frame is refused at the first byte that tells") {
  CHECK(error_of(StartKind::request, "47") == StartError::Kind::key);  // "G" of "GET /".
  CHECK(error_of(StartKind::request, reply_key) == StartError::Kind::key);
  CHECK(error_of(StartKind::reply, request_key) == StartError::Kind::key);
  CHECK(error_of(StartKind::request, request_key + "40000000") == StartError::Kind::revision);
  CHECK(error_of(StartKind::request, request_key + "40010201") ==
        StartError::Kind::private_data_length);
  CHECK(error_of(StartKind::request, request_key + "5002000300") ==
        StartError::Kind::enhanced_length);
  // The flag means nothing in revision 1.
  const Bytes bytes = from_hex(request_key + "5001000300aabb");
  StartFrameReader reader(StartKind::request);
  CHECK_FALSE(read_whole(reader, bytes).enhanced);
}

TEST_CASE("legacy depths are two words in front of the private data of revision 1") {
  const std::array data{std::byte{0xAB}};
  StartFrame frame{.kind = StartKind::request, .revision = 1, .private_data = data};
  frame.legacy_depths = {.ird = 0x0102, .ord = 3};
  std::vector<std::byte> bytes(start_frame_bytes(frame).value());
  emit_start_frame(bytes, frame);
  CHECK(to_hex(ByteView(bytes).subspan(start_frame_header_bytes)) == "0000010200000003ab");

  StartFrameReader reader(StartKind::request);
  ByteView stream = bytes;
  StartFrame read = reader.take(stream)->value();
  CHECK(read.private_data.size() == 9);
  take_legacy_depths(read);
  CHECK(read.legacy_depths == frame.legacy_depths);
  CHECK(std::ranges::equal(read.private_data, data));

  // What no depth can be, and what is too short to be any.
  std::vector<std::byte> hostile(legacy_depths_bytes, std::byte{0xFF});
  StartFrame other{.kind = StartKind::request, .revision = 1, .private_data = hostile};
  take_legacy_depths(other);
  CHECK(other.legacy_depths == ReadDepths{.ird = read_depth_max, .ord = read_depth_max});
  hostile.pop_back();
  StartFrame brief{.kind = StartKind::request, .revision = 1, .private_data = hostile};
  take_legacy_depths(brief);
  CHECK_FALSE(brief.legacy_depths);
  CHECK(brief.private_data.size() == legacy_depths_bytes - 1);
}

TEST_CASE("private data has 512 bytes at most, the enhanced parameters included") {
  const Bytes data(private_data_bytes_max);
  StartFrame frame{.revision = 1, .private_data = data};
  CHECK(start_frame_bytes(frame) == start_frame_bytes_max);
  const Bytes bytes = emitted(frame);
  StartFrameReader reader(StartKind::request);
  CHECK(read_whole(reader, bytes).private_data.size() == private_data_bytes_max);
  frame.revision = 2;
  frame.enhanced = EnhancedParameters{};
  CHECK_FALSE(start_frame_bytes(frame));
  frame.private_data = frame.private_data.first(508);
  CHECK(start_frame_bytes(frame) == start_frame_bytes_max);
}

}  // namespace verbena::iwarp
