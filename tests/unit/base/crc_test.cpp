// CRC-32 and CRC-32C: published vectors, and a bitwise oracle over lengths, alignments and splits.
#include "base/crc.h"

#include <array>
#include <catch2/catch.hpp>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "tests/unit/base/crc_oracle.h"

namespace verbena {
namespace {

ByteView bytes_of_text(std::string_view text) { return std::as_bytes(std::span(text)); }

std::vector<std::byte> random_bytes(std::size_t size_bytes, std::uint64_t seed) {
  Prng prng(seed);
  std::vector<std::byte> bytes(size_bytes);
  for (auto& byte : bytes) {
    byte = std::byte(prng.below(256));
  }
  return bytes;
}

/// 32 bytes, each `step` more than the one before.
std::array<std::byte, 32> ramp(int first, int step) {
  std::array<std::byte, 32> bytes{};
  for (auto& byte : bytes) {
    byte = std::byte(first);
    first += step;
  }
  return bytes;
}

TEST_CASE("CRC-32 gives the check value of its definition", "[crc]") {
  REQUIRE(crc32(0, bytes_of_text("123456789")) == 0xCBF4'3926);
  REQUIRE(oracle::crc32(bytes_of_text("123456789")) == 0xCBF4'3926);
}

TEST_CASE("CRC-32C gives the vectors of RFC 3720 B.4", "[crc]") {
  // The RFC prints the CRC as it is on the wire, least significant byte first: aa 36 91 8a.
  REQUIRE(crc32c(0, ramp(0, 0)) == 0x8A91'36AA);
  REQUIRE(crc32c(0, ramp(0xFF, 0)) == 0x62A8'AB43);
  REQUIRE(crc32c(0, ramp(0, 1)) == 0x46DD'794E);
  REQUIRE(crc32c(0, ramp(31, -1)) == 0x113F'DB5C);
  // A SCSI READ(10) command PDU, the last vector of B.4.
  constexpr std::array<unsigned char, 48> read_10 = {
      0x01, 0xC0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
      0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
  REQUIRE(crc32c(0, bytes_of(read_10)) == 0xD996'3A56);
  REQUIRE(crc32c(0, bytes_of_text("123456789")) == 0xE306'9283);
}

TEST_CASE("the CRC of nothing is the value that came in", "[crc]") {
  REQUIRE(crc32(0, {}) == 0);
  REQUIRE(crc32c(0, {}) == 0);
  REQUIRE(crc32(0x1234'5678, {}) == 0x1234'5678);
  REQUIRE(crc32c(0x1234'5678, {}) == 0x1234'5678);
}

TEST_CASE("both CRCs agree with the oracle at every length and alignment", "[crc]") {
  // ISA-L has separate paths for short inputs, unaligned heads and tails, and 16 to 1024 byte
  // folds.
  const auto bytes = random_bytes(2200, 1);
  for (std::size_t offset = 0; offset < 17; ++offset) {
    for (std::size_t size = 0; size + offset <= bytes.size(); size += size < 300 ? 1 : 61) {
      const auto piece = ByteView(bytes).subspan(offset, size);
      REQUIRE(crc32(0, piece) == oracle::crc32(piece));
      REQUIRE(crc32c(0, piece) == oracle::crc32c(piece));
    }
  }
}

TEST_CASE("a CRC continues over bytes that come in pieces", "[crc]") {
  const auto bytes = random_bytes(300, 2);
  const auto whole = ByteView(bytes);
  for (std::size_t split = 0; split <= bytes.size(); ++split) {
    const auto first = whole.first(split);
    const auto second = whole.subspan(split);
    REQUIRE(crc32(crc32(0, first), second) == oracle::crc32(whole));
    REQUIRE(crc32c(crc32c(0, first), second) == oracle::crc32c(whole));
  }
}

}  // namespace
}  // namespace verbena
