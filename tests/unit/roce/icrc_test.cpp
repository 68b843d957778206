// The ICRC against packets of real hardware and of Scapy, bit by bit. Vectors are bytes, never
// numbers of the host: the CRC is stored least significant byte first on every machine.
#include "proto/roce/icrc.h"

#include <catch2/catch.hpp>
#include <set>
#include <string_view>

#include "proto/ib_bth/emit.h"
#include "proto/roce/decap.h"
#include "tests/unit/roce/vectors.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::roce {
namespace {

using test::Bytes;
using test::from_hex;
using test::to_hex;

std::string icrc_hex(Version version, ByteView packet) {
  Bytes bytes(icrc_bytes);
  store_icrc(bytes, icrc(version, packet));
  return to_hex(bytes);
}

/// The packet of a vector that is a whole Ethernet frame: from the IP header or GRH to the pad.
Bytes packet_of(std::string_view frame_hex) {
  const auto frame = from_hex(frame_hex);
  constexpr std::size_t ethernet_bytes = 14;
  return {frame.begin() + ethernet_bytes, frame.end() - icrc_bytes};
}

void flip(Bytes& bytes, std::size_t bit) { bytes[bit / 8] ^= std::byte(0x80U >> (bit % 8)); }

/// Bytes (whole, but for the lower nibble of byte 0 of IPv6 and GRH) that the ICRC doesn't cover,
/// as annexes A16.5.1.4 and A17.3.3 list them.
void check_coverage(Version version, const Bytes& packet, const std::set<std::size_t>& masked,
                    bool is_low_nibble_of_first_masked) {
  const std::uint32_t reference = icrc(version, packet);
  for (std::size_t bit = 0; bit < packet.size() * 8; ++bit) {
    INFO("byte " << bit / 8 << ", bit " << bit % 8);
    Bytes changed = packet;
    flip(changed, bit);
    const bool is_masked =
        masked.contains(bit / 8) || (is_low_nibble_of_first_masked && bit >= 4 && bit < 8);
    REQUIRE((icrc(version, changed) == reference) == is_masked);
  }
}

}  // namespace

TEST_CASE("the ICRC of packets from hardware is reproduced") {
  CHECK(icrc_hex(Version::v2_ipv4, packet_of(test::cnp_frame)) == "82fd002a");
  CHECK(icrc_hex(Version::v1, packet_of(test::v1_write_frame)) == "e3d856bb");
  CHECK(icrc_hex(Version::v1, packet_of(test::v1_ack_frame)) == "25f0c038");
}

TEST_CASE("the ICRC of Scapy's packets is reproduced") {
  CHECK(icrc_hex(Version::v2_ipv4, from_hex(test::uc_ipv4_packet)) == "78f353f3");
  CHECK(icrc_hex(Version::v2_ipv6, from_hex(test::uc_ipv6_packet)) == "3e5b743b");
}

// SoftRoCE/rxe-dev#30: what routers change must not matter, all else must. Each single bit is
// tried.
TEST_CASE("the ICRC covers every bit but those of the masked fields") {
  // Type of service, TTL, IPv4 checksum, UDP checksum, BTH byte 4.
  check_coverage(Version::v2_ipv4, from_hex(test::uc_ipv4_packet), {1, 8, 10, 11, 26, 27, 32},
                 false);
  // Traffic class and flow label, hop limit, UDP checksum, BTH byte 4.
  check_coverage(Version::v2_ipv6, from_hex(test::uc_ipv6_packet), {1, 2, 3, 7, 46, 47, 52}, true);
  // Traffic class and flow label, hop limit, BTH byte 4.
  check_coverage(Version::v1, packet_of(test::v1_write_frame), {1, 2, 3, 7, 44}, true);
}

TEST_CASE("the ICRC is stored least significant byte first") {
  Bytes bytes(icrc_bytes);
  store_icrc(bytes, 0x0102'0304);
  CHECK(to_hex(bytes) == "04030201");
  CHECK(load_icrc(bytes) == 0x0102'0304);
}

// linux-rdma 88b037591: a soft device left the pad out, and hardware dropped all it sent.
TEST_CASE("the pad is covered by the ICRC, whatever the payload's length") {
  Prng prng(1);
  for (std::size_t length = 0; length <= 64; ++length) {
    INFO(length);
    constexpr std::size_t headers = 20 + 8;
    const auto payload = test::random_bytes(prng, length);
    Bytes packet = from_hex(test::uc_ipv4_packet);
    packet.resize(headers + ib::transport_size(ib::Opcode::rc_send_only, length) + icrc_bytes);
    const MutableBytes bytes(packet);
    ib::emit_packet(bytes.subspan(headers), {.opcode = ib::Opcode::rc_send_only}, payload);
    store_icrc(bytes.last(icrc_bytes),
               icrc(Version::v2_ipv4, bytes.first(bytes.size() - icrc_bytes)));
    REQUIRE(verify_icrc(Version::v2_ipv4, packet));
    const std::size_t pad = ib::pad_count(length);
    for (std::size_t bit = 0; bit < 8 * (pad + icrc_bytes); ++bit) {
      Bytes changed = packet;
      flip(changed, 8 * (packet.size() - icrc_bytes - pad) + bit);
      REQUIRE(!verify_icrc(Version::v2_ipv4, changed));
    }
  }
}

TEST_CASE("verify_icrc tells a good packet from a bad one") {
  for (const auto& [version, hex] : {std::pair(Version::v2_ipv4, test::cnp_frame),
                                     std::pair(Version::v1, test::v1_write_frame)}) {
    const Bytes frame = from_hex(hex);
    const ByteView packet = ByteView(frame).subspan(14);
    CHECK(verify_icrc(version, packet));
    Bytes changed(packet.begin(), packet.end());
    flip(changed, changed.size() * 8 - 1);
    CHECK(!verify_icrc(version, changed));
  }
}

}  // namespace verbena::roce
