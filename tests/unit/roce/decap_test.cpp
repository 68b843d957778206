// parse_frame(): what is RoCE, what isn't, and what is wrong with the rest.
#include "proto/roce/decap.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "proto/ib_bth/packet.h"
#include "proto/roce/encap.h"
#include "proto/roce/gid.h"
#include "tests/unit/roce/vectors.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::roce {
namespace {

using test::Bytes;
using test::from_hex;
using Kind = FrameError::Kind;

Bytes cnp() { return from_hex(test::cnp_frame); }
Bytes v1_ack() { return from_hex(test::v1_ack_frame); }

Bytes uc_ipv6() {
  Bytes frame = from_hex("e41d2dab2bc2 7cfe90643b32 86dd");
  std::ranges::copy(from_hex(test::uc_ipv6_packet), std::back_inserter(frame));
  std::ranges::copy(from_hex("3e5b743b"), std::back_inserter(frame));
  return frame;
}

void put_u16(Bytes& bytes, std::size_t offset, unsigned value) {
  bytes[offset] = std::byte(value >> 8);
  bytes[offset + 1] = std::byte(value & 0xFF);
}

/// Makes the IPv4 header's checksum right again.
void fix_ipv4_checksum(Bytes& frame) {
  put_u16(frame, 24,
          inet::ipv4_checksum(read_struct<inet::Ipv4Header>(ByteView(frame).subspan(14))));
}

FrameError error_of(const Bytes& frame) {
  const auto result = parse_frame(frame);
  REQUIRE(!result);
  return result.error();
}

inet::ParseError inet_error_of(const Bytes& frame) {
  const FrameError error = error_of(frame);
  REQUIRE(error.kind == Kind::inet);
  CHECK(describe(error) == describe(error.inet));
  return error.inet;
}

}  // namespace

TEST_CASE("a RoCE v2 frame over IPv4 is taken apart") {
  const Bytes bytes = cnp();
  const auto frame = parse_frame(bytes);
  REQUIRE(frame);
  CHECK(frame->version == Version::v2_ipv4);
  CHECK(frame->destination_mac.to_text() == "e4:1d:2d:ab:2b:c2");
  CHECK(frame->source_mac.to_text() == "7c:fe:90:64:3b:32");
  CHECK(!frame->vlan_control);
  CHECK(to_text(frame->source) == "::ffff:10.0.17.1");
  CHECK(to_text(frame->destination) == "::ffff:10.0.18.1");
  CHECK(frame->traffic_class == 0xC2);
  CHECK(frame->ecn() == 2);
  CHECK(frame->hop_limit == 64);
  CHECK(frame->identification == 0x718C);
  CHECK(frame->udp_source_port == 0);
  CHECK(frame->network_header().size() == 20);
  CHECK(frame->transport.size() == 28);
  CHECK(frame->wire_icrc() == 0x2A00'FD82);
  CHECK(frame->icrc_is_good());
  const auto packet = ib::PacketView::parse(frame->transport);
  REQUIRE(packet);
  CHECK(packet->opcode() == ib::Opcode::cnp);
  CHECK(packet->dest_qpn() == Qpn{0x118});
}

TEST_CASE("a RoCE v2 frame over IPv6 is taken apart") {
  const Bytes bytes = uc_ipv6();
  const auto frame = parse_frame(bytes);
  REQUIRE(frame);
  CHECK(frame->version == Version::v2_ipv6);
  CHECK(to_text(frame->source) == "2022::1023");
  CHECK(to_text(frame->destination) == "2023::1024");
  CHECK(frame->traffic_class == 0xE2);
  CHECK(frame->flow_label == 0x1'FACE);
  CHECK(frame->hop_limit == 255);
  CHECK(frame->udp_source_port == 0xC000);
  CHECK(frame->udp_checksum == 0xE7C5);
  CHECK(frame->network_header().size() == 40);
  CHECK(frame->icrc_is_good());
}

TEST_CASE("a RoCE v1 frame is taken apart") {
  const Bytes bytes = v1_ack();
  const auto frame = parse_frame(bytes);
  REQUIRE(frame);
  CHECK(frame->version == Version::v1);
  CHECK(to_text(frame->source) == "::ffff:15.0.0.2");
  CHECK(frame->traffic_class == 2);
  CHECK(frame->hop_limit == 0x40);
  CHECK(frame->network_header().size() == 40);
  CHECK(frame->transport.size() == 16);
  CHECK(frame->icrc_is_good());
}

// A switch or a minimum-size rule may add bytes that belong to nobody.
TEST_CASE("bytes behind the packet's own end are not part of it") {
  for (Bytes bytes : {cnp(), uc_ipv6(), v1_ack()}) {
    const std::size_t transport_bytes = parse_frame(bytes)->transport.size();
    bytes.resize(bytes.size() + 7, std::byte{0xA5});
    const auto frame = parse_frame(bytes);
    REQUIRE(frame);
    CHECK(frame->transport.size() == transport_bytes);
    CHECK(frame->icrc_is_good());
  }
}

TEST_CASE("VLAN tags are skipped and the outer one is told") {
  Bytes bytes = cnp();
  const Bytes tags = from_hex("88a8 2064 8100 0005");
  bytes.insert(bytes.begin() + 12, tags.begin(), tags.end());
  const auto frame = parse_frame(bytes);
  REQUIRE(frame);
  CHECK(frame->vlan_control == 0x2064);
  CHECK(frame->icrc_is_good());
}

TEST_CASE("frames of other protocols are not RoCE, whatever is odd about them") {
  CHECK(error_of(from_hex("ffffffffffff 525400000a00 0806 0001")).kind == Kind::not_roce);
  Bytes tcp = cnp();
  tcp[14 + 9] = std::byte{6};
  CHECK(error_of(tcp).kind == Kind::not_roce);
  Bytes other_port = cnp();
  put_u16(other_port, 14 + 20 + 2, 53);
  put_u16(other_port, 14 + 20 + 4, 0);
  CHECK(error_of(other_port).kind == Kind::not_roce);
  Bytes igmp = cnp();
  igmp[14] = std::byte{0x46};
  igmp[14 + 9] = std::byte{2};
  CHECK(error_of(igmp).kind == Kind::not_roce);
  Bytes icmp6 = uc_ipv6();
  icmp6[14 + 6] = std::byte{58};
  CHECK(error_of(icmp6).kind == Kind::not_roce);
  CHECK(describe(error_of(icmp6)) == "not RoCE");
}

TEST_CASE("a malformed IPv4 header is told in words") {
  using K = inet::ParseError::Kind;
  Bytes version = cnp();
  version[14] = std::byte{0x55};
  CHECK(inet_error_of(version) == inet::ParseError{K::ipv4_version, 4, 5});

  Bytes options = cnp();
  options.insert(options.begin() + 34, 4, std::byte{0});
  options[14] = std::byte{0x46};
  CHECK(inet_error_of(options) == inet::ParseError{K::ipv4_options, 20, 24});

  Bytes checksum = cnp();
  checksum[14 + 8] = std::byte{63};
  CHECK(inet_error_of(checksum) == inet::ParseError{K::ipv4_checksum, 0x9261, 0x9161});

  Bytes total = cnp();
  put_u16(total, 16, 61);
  fix_ipv4_checksum(total);
  CHECK(inet_error_of(total) == inet::ParseError{K::ipv4_total_length, 61, 60});
  CHECK(describe(error_of(total)) == "IPv4 total length is 61 bytes, 60 are there");

  Bytes fragment = cnp();
  put_u16(fragment, 20, 0x2000);
  fix_ipv4_checksum(fragment);
  CHECK(inet_error_of(fragment) == inet::ParseError{K::ipv4_fragment, 0, 0x2000});
}

TEST_CASE("length fields that point past the frame are told in words") {
  using K = inet::ParseError::Kind;
  Bytes udp = cnp();
  put_u16(udp, 14 + 20 + 4, 41);
  CHECK(inet_error_of(udp) == inet::ParseError{K::udp_length, 41, 40});
  put_u16(udp, 14 + 20 + 4, 7);
  CHECK(inet_error_of(udp) == inet::ParseError{K::udp_length, 7, 40});

  Bytes ipv6 = uc_ipv6();
  put_u16(ipv6, 14 + 4, 45);
  CHECK(inet_error_of(ipv6) == inet::ParseError{K::ipv6_payload_length, 45, 44});

  Bytes v1 = v1_ack();
  put_u16(v1, 14 + 4, 21);
  CHECK(error_of(v1) == FrameError{Kind::grh_payload_length, 21, 20, {}});
  CHECK(describe(error_of(v1)) == "GRH payload length is 21 bytes, 20 are there");
  put_u16(v1, 14 + 4, 15);
  CHECK(error_of(v1) == FrameError{Kind::too_short, 16, 15, {}});
}

TEST_CASE("a GRH must announce an InfiniBand transport") {
  Bytes next = v1_ack();
  next[14 + 6] = std::byte{17};
  CHECK(error_of(next) == FrameError{Kind::grh_next_header, 0x1B, 17, {}});
  Bytes version = v1_ack();
  version[14] = std::byte{0x40};
  CHECK(error_of(version) == FrameError{Kind::grh_version, 6, 4, {}});
}

TEST_CASE("a frame that ends early is refused wherever it ends") {
  for (const Bytes& whole : {cnp(), uc_ipv6(), v1_ack()}) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      INFO(length);
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
      const FrameError error = error_of(cut);
      CHECK(error.kind != Kind::not_roce);
      CHECK(!describe(error).empty());
    }
  }
}

// linux-rdma 3723cf690 and f849cdc50: all opcodes, lengths 0 to 80 behind the UDP header, with good
// and bad ICRC. Nothing may be read outside of the frame (AddressSanitizer looks on), nothing is
// accepted that PacketView wouldn't.
TEST_CASE("hostile transport packets of every opcode and length do no harm") {
  Prng prng(26);
  const Encapsulation encapsulation(
      {.source = *gid_from_text("10.9.0.2"), .destination = *gid_from_text("10.9.0.1")},
      ShortFrames::keep);
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    for (std::size_t length = 0; length <= 80; ++length) {
      const bool has_good_icrc = prng.chance({1, 2}) && length >= 12;
      Bytes bytes(encapsulation.prefix_bytes());
      std::ranges::copy(test::random_bytes(prng, length + icrc_bytes), std::back_inserter(bytes));
      if (length > 0) {
        bytes[encapsulation.prefix_bytes()] = std::byte(opcode);
      }
      encapsulation.write_prefix(bytes, length);
      if (has_good_icrc) {
        encapsulation.finish(bytes, length);
      }
      const auto frame = parse_frame(bytes);
      REQUIRE(frame.has_value() == (length >= 12));
      if (frame) {
        REQUIRE(frame->icrc_is_good() == has_good_icrc);
        const auto packet = ib::PacketView::parse(frame->transport);
        REQUIRE((!packet || ib::opcode_info(ib::Opcode(opcode)).is_known));
      }
    }
  }
}

TEST_CASE("random changes to a frame never make it read outside of its bytes") {
  Prng prng(14);
  for (const Bytes& whole : {cnp(), uc_ipv6(), v1_ack(), from_hex(test::v1_write_frame)}) {
    for (int round = 0; round < 5000; ++round) {
      Bytes bytes = whole;
      bytes.resize(prng.below(bytes.size() + 1));
      for (std::uint64_t changes = prng.below(4); changes > 0 && !bytes.empty(); --changes) {
        bytes[prng.below(bytes.size())] = static_cast<std::byte>(prng.next());
      }
      bytes.shrink_to_fit();
      const auto frame = parse_frame(bytes);
      if (frame) {
        static_cast<void>(frame->icrc_is_good());
        const auto packet = ib::PacketView::parse(frame->transport);
        REQUIRE((!packet || packet->payload().size() <= bytes.size()));
      } else {
        REQUIRE(!describe(frame.error()).empty());
      }
    }
  }
}

}  // namespace verbena::roce
