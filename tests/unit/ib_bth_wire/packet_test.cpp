// PacketView: what it refuses, and why; what it shows of the rest.
#include "proto/ib_bth/packet.h"

#include <catch2/catch.hpp>

#include "tests/unit/wire_support/hex.h"

namespace verbena::ib {
namespace {

using test::from_hex;
using Kind = ParseError::Kind;

ParseError error_of(std::string_view hex) {
  const auto bytes = from_hex(hex);
  const auto view = PacketView::parse(bytes);
  REQUIRE(!view);
  return view.error();
}

}  // namespace

TEST_CASE("a packet's headers, payload and pad are found") {
  // RC RDMA WRITE Only with Immediate, solicited, migrated, PadCnt 3, AckReq, five bytes of
  // payload.
  const auto bytes = from_hex(
      "0bf0ffff c0123456 80abcdef"
      "0123456789abcdef 00112233 00000005"
      "deadbeef"
      "0102030405 000000");
  const auto view = PacketView::parse(bytes);
  REQUIRE(view);
  CHECK(view->opcode() == Opcode::rc_write_only_imm);
  CHECK(view->bth().solicited());
  CHECK(view->bth().migrated());
  CHECK(view->bth().pkey() == pkey_default);
  CHECK(view->bth().fecn());
  CHECK(view->bth().becn());
  CHECK(view->dest_qpn() == Qpn{0x123456});
  CHECK(view->bth().ack_request());
  CHECK(view->psn() == Psn(0xABCDEF));
  CHECK(view->reth().va() == Va{0x0123456789ABCDEF});
  CHECK(view->reth().rkey() == Rkey{0x00112233});
  CHECK(view->reth().length_bytes() == 5);
  CHECK(view->imm().value() == 0xDEADBEEF);
  CHECK(test::to_hex(view->payload()) == "0102030405");
  CHECK(test::to_hex(view->pad()) == "000000");
  CHECK(view->transport().size() == bytes.size());
}

TEST_CASE("a refused packet says what is wrong with it") {
  CHECK(error_of("") == ParseError{Kind::bth_truncated, Opcode{}, 12, 0});
  CHECK(error_of("0440ffff0000001100000a") == ParseError{Kind::bth_truncated, Opcode{}, 12, 11});
  CHECK(error_of("0441ffff 00000011 0000000a") ==
        ParseError{Kind::transport_version, Opcode::rc_send_only, 0, 1});
  CHECK(error_of("ff40ffff 00000011 0000000a") ==
        ParseError{Kind::opcode_reserved, Opcode{0xFF}, 0, 0xFF});
  CHECK(error_of("0440ffff 00000011 0000000a 01") ==
        ParseError{Kind::length_not_in_words, Opcode::rc_send_only, 12, 13});
  CHECK(error_of("0c40ffff 00000011 0000000a 00000000") ==
        ParseError{Kind::headers_truncated, Opcode::rc_read_request, 28, 16});
  CHECK(describe(error_of("0440ff")) == "a BTH needs 12 bytes, got 3");
  CHECK(describe(error_of("0441ffff 00000011 0000000a")) == "transport version 0 expected, got 1");
  CHECK(describe(error_of("ff40ffff 00000011 0000000a")) == "opcode 0xff is reserved");
  CHECK(describe(error_of("0440ffff 00000011 0000000a 01")) ==
        "RC SEND Only has 13 bytes, not a multiple of 4");
  CHECK(describe(error_of("0c40ffff 00000011 0000000a 00000000")) ==
        "RC RDMA READ Request needs 28 bytes of headers, got 16");
}

// linux-rdma f849cdc50: a pad larger than the payload made a kernel's length negative.
TEST_CASE("a pad without a payload to fill is refused") {
  const ParseError error = error_of("0470ffff 00000011 0000000a");
  CHECK(error == ParseError{Kind::pad_exceeds_payload, Opcode::rc_send_only, 0, 3});
  CHECK(describe(error) == "RC SEND Only with PadCnt 3 has only 0 bytes behind its headers");
}

// linux-rdma 3723cf690: an opcode of 0xFF made a kernel panic. Every opcode, length and pad count.
TEST_CASE("every opcode at every length is either refused or wholly readable") {
  Prng prng(26);
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    for (std::size_t length = 0; length <= 80; ++length) {
      auto bytes = test::random_bytes(prng, length);
      if (length >= 2) {
        bytes[0] = std::byte(opcode);
        bytes[1] &= std::byte{0xF0};
      }
      const auto view = PacketView::parse(bytes);
      const OpcodeInfo& info = opcode_info(Opcode(opcode));
      const std::size_t pad = length < 2 ? 0 : std::to_integer<std::size_t>(bytes[1]) >> 4 & 3;
      const bool is_good =
          length >= 12 && info.is_known && length % 4 == 0 && length >= info.header_bytes + pad;
      INFO(opcode << ", length " << length);
      REQUIRE(view.has_value() == is_good);
      if (view) {
        REQUIRE(view->payload().size() == length - info.header_bytes - pad);
        REQUIRE(view->pad().size() == pad);
      } else {
        REQUIRE(!describe(view.error()).empty());
      }
    }
  }
}

}  // namespace verbena::ib
