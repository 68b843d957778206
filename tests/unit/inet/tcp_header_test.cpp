// The TCP header: its fields lie where RFC 9293 has them, and a header that is longer than what is
// there, or shorter than itself, is refused.
#include "proto/inet/tcp_header.h"

#include <catch2/catch.hpp>

#include "tests/unit/wire_support/field_check.h"

namespace verbena::inet {
namespace {

template <class Buffer>
void check_number(std::size_t first_bit, Buffer TcpHeader::* member) {
  using Value = typename Buffer::value_type;
  test::check_field<TcpHeader>(
      first_bit, sizeof(Value) * 8,
      [&](TcpHeader& header, std::uint64_t value) { header.*member = static_cast<Value>(value); },
      [&](const TcpHeader& header) { return std::uint64_t{(header.*member).value()}; });
}

}  // namespace

TEST_CASE("every field of the TCP header lies where the figure has it") {
  check_number(0, &TcpHeader::source_port);
  check_number(16, &TcpHeader::destination_port);
  check_number(32, &TcpHeader::sequence);
  check_number(64, &TcpHeader::acknowledgement);
  check_number(112, &TcpHeader::window);
  check_number(128, &TcpHeader::checksum);
  check_number(144, &TcpHeader::urgent);
}

TEST_CASE("a segment is taken apart into header, options and payload") {
  test::Bytes bytes(30);
  TcpHeader header;
  header.data_offset = 6 << 4;
  header.flags = TcpHeader::flag_syn | TcpHeader::flag_ack;
  write_struct(MutableBytes(bytes), header);
  const auto segment = parse_tcp(bytes);
  REQUIRE(segment);
  CHECK(segment->options.size() == 4);
  CHECK(segment->payload.size() == 6);
  CHECK(segment->header.has(TcpHeader::flag_syn));
  CHECK_FALSE(segment->header.has(TcpHeader::flag_fin));
}

TEST_CASE("a TCP header that doesn't fit is refused") {
  test::Bytes bytes(tcp_header_bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK(parse_tcp(ByteView(bytes).first(size)).error().kind == TcpError::Kind::truncated);
  }
  for (unsigned words = 0; words < 16; ++words) {
    TcpHeader header;
    header.data_offset = static_cast<std::uint8_t>(words << 4U);
    write_struct(MutableBytes(bytes), header);
    const auto segment = parse_tcp(bytes);
    CHECK(segment.has_value() == (words == 5));
    if (!segment) {
      CHECK(segment.error().kind == TcpError::Kind::data_offset);
      CHECK_FALSE(describe(segment.error()).empty());
    }
  }
}

}  // namespace verbena::inet
