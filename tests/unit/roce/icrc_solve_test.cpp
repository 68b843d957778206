// Solving for the IPv4 identification: whatever the sender's kernel wrote comes out, and a changed
// packet is refused, but for the share that 16 unknown bits let through.
#include "proto/roce/icrc_solve.h"

#include <catch2/catch.hpp>

#include "base/prng.h"
#include "proto/inet/headers.h"
#include "proto/roce/decap.h"
#include "proto/roce/encap.h"
#include "proto/roce/gid.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::roce {
namespace {

using test::Bytes;

/// From the IPv4 header to the end of the ICRC, with random contents and a right ICRC.
Bytes random_packet(Prng& prng, std::size_t transport_bytes, std::uint16_t identification) {
  const Encapsulation encapsulation({.source = *gid_from_text("10.9.0.2"),
                                     .destination = *gid_from_text("10.9.0.1"),
                                     .identification = identification},
                                    ShortFrames::keep);
  Bytes frame(encapsulation.frame_bytes(transport_bytes));
  for (std::byte& byte : frame) {
    byte = static_cast<std::byte>(prng.next());
  }
  encapsulation.write_prefix(frame, transport_bytes);
  encapsulation.finish(frame, transport_bytes);
  return {frame.begin() + inet::ethernet_header_bytes, frame.end()};
}

std::size_t random_size(Prng& prng) { return 12 + prng.below(4 * 1024 + 32); }

/// What the receiver sees: the packet without its identification.
Bytes as_received(Bytes packet, std::uint16_t guess = 0) {
  auto header = read_struct<inet::Ipv4Header>(packet);
  header.identification = guess;
  write_struct(packet, header);
  return packet;
}

}  // namespace

TEST_CASE("every identification is found, at every length") {
  Prng prng(1);
  IdentificationSolver solver;
  for (std::size_t bytes = 12; bytes < 300; ++bytes) {
    const auto identification = static_cast<std::uint16_t>(prng.next());
    REQUIRE(solver.solve(as_received(random_packet(prng, bytes, identification))) ==
            identification);
  }
  for (int round = 0; round < 2000; ++round) {
    const auto identification = static_cast<std::uint16_t>(prng.next());
    const auto guess = static_cast<std::uint16_t>(prng.next());
    const Bytes packet = random_packet(prng, random_size(prng), identification);
    REQUIRE(solver.solve(as_received(packet, guess)) == identification);
  }
}

TEST_CASE("every value of the field is found, whatever was guessed") {
  Prng prng(2);
  IdentificationSolver solver;
  Bytes packet = random_packet(prng, 20, 0);
  for (std::uint32_t identification = 0; identification <= 0xFFFF; ++identification) {
    change_identification(packet, static_cast<std::uint16_t>(identification));
    REQUIRE(solver.solve(as_received(packet, 0x1234)) == identification);
  }
}

// 16 bits are unknown, so about one changed packet of 65,536 must look like a good one with another
// identification. Whatever gets past has a right ICRC: nothing better can be asked of a solver.
TEST_CASE("changed packets are refused, but for one of 65,536") {
  Prng prng(3);
  IdentificationSolver solver;
  constexpr int rounds = 100'000;
  int accepted = 0;
  Bytes original = random_packet(prng, 1024, 7);
  for (int round = 0; round < rounds; ++round) {
    Bytes packet = as_received(original);
    const std::uint64_t flips = 1 + prng.below(8);
    for (std::uint64_t flip = 0; flip < flips; ++flip) {
      // Behind the headers, where no byte is masked.
      const std::size_t at = 40 + prng.below(packet.size() - 40);
      packet[at] ^= static_cast<std::byte>(1U << prng.below(8));
    }
    if (packet == as_received(original)) {
      continue;  // Two flips of one bit.
    }
    if (const auto solved = solver.solve(packet)) {
      ++accepted;
      REQUIRE(*solved != 7);
      REQUIRE(verify_icrc(Version::v2_ipv4, as_received(packet, *solved)));
    }
  }
  CHECK(accepted <= rounds / 65'536 + 5);
}

TEST_CASE("no single flipped bit of a packet of ours is accepted with a number of a batch") {
  Prng prng(4);
  IdentificationSolver solver;
  const Bytes original = random_packet(prng, 1024 + 16, 0);
  for (std::size_t bit = 40 * 8; bit < original.size() * 8; ++bit) {
    Bytes packet = original;
    packet[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    const auto solved = solver.solve(packet);
    REQUIRE((!solved || *solved >= 64));
  }
}

TEST_CASE("packets without room for a BTH and an ICRC have no solution") {
  IdentificationSolver solver;
  for (std::size_t bytes = 0; bytes < 20 + 8 + 12 + 4; ++bytes) {
    REQUIRE(!solver.solve(Bytes(bytes, std::byte{0x45})));
  }
}

TEST_CASE("a changed identification leaves a good packet good and a bad one bad") {
  Prng prng(5);
  for (int round = 0; round < 1000; ++round) {
    Bytes packet = random_packet(prng, random_size(prng), static_cast<std::uint16_t>(prng.next()));
    const auto identification = static_cast<std::uint16_t>(prng.next());
    change_identification(packet, identification);
    REQUIRE(read_struct<inet::Ipv4Header>(packet).identification.value() == identification);
    REQUIRE(inet::internet_checksum(ByteView(packet).first(20)) == 0);
    REQUIRE(verify_icrc(Version::v2_ipv4, packet));
    packet.back() ^= std::byte{1};
    change_identification(packet, static_cast<std::uint16_t>(~identification));
    REQUIRE(!verify_icrc(Version::v2_ipv4, packet));
  }
}

}  // namespace verbena::roce
