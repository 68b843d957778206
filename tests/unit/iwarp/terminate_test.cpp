// TERMINATE: its codes are those of IANA's registry, each once, and the message tells of the
// segment that caused it what RFC 5040, 4.8 wants told.
#include "proto/iwarp/terminate.h"

#include <catch2/catch.hpp>
#include <set>
#include <tuple>

#include "proto/iwarp/segment.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::iwarp {
namespace {

using test::Bytes;
using test::from_hex;
using test::to_hex;

constexpr std::size_t reason_count = 33;

std::string emitted(TerminateReason reason, ByteView segment) {
  Bytes bytes(terminate_ulpdu_bytes_max);
  bytes.resize(emit_terminate(bytes, reason, segment));
  return to_hex(bytes);
}

const std::string untagged_header =
    "4147"
    "00000000"
    "00000002"
    "00000001"
    "00000000";

}  // namespace

TEST_CASE("every reason has numbers and a name of its own, and is found by its numbers") {
  std::set<std::tuple<TerminateLayer, unsigned, unsigned>> seen;
  for (std::size_t i = 0; i < reason_count; ++i) {
    const auto reason = static_cast<TerminateReason>(i);
    const TerminateCode code = code_of(reason);
    CHECK(seen.emplace(code.layer, code.type, code.code).second);
    CHECK(find_reason(code) == reason);
    CHECK_FALSE(name_of(reason).empty());
  }
  CHECK(static_cast<std::size_t>(TerminateReason::llp_no_matching_rtr) + 1 == reason_count);
  CHECK_FALSE(find_reason({.layer = TerminateLayer::llp, .type = 1, .code = 2}));
}

TEST_CASE("numbers of the registry, sampled") {
  const auto numbers = [](TerminateReason reason) {
    const TerminateCode code = code_of(reason);
    return static_cast<unsigned>(code.layer) << 12U | unsigned{code.type} << 8U | code.code;
  };
  CHECK(numbers(TerminateReason::rdmap_access) == 0x0102);
  CHECK(numbers(TerminateReason::rdmap_opcode) == 0x0206);
  CHECK(numbers(TerminateReason::rdmap_operation_unspecified) == 0x02FF);
  CHECK(numbers(TerminateReason::ddp_tagged_bounds) == 0x1101);
  CHECK(numbers(TerminateReason::ddp_untagged_too_long) == 0x1205);
  CHECK(numbers(TerminateReason::llp_crc) == 0x2002);
  CHECK(numbers(TerminateReason::llp_no_matching_rtr) == 0x2007);
}

TEST_CASE("a TERMINATE for an error of MPA tells nothing of a segment") {
  CHECK(emitted(TerminateReason::llp_fpdu_length, {}) == untagged_header + "20030000");
  CHECK(emitted(TerminateReason::llp_crc, from_hex("c14000000001")) ==
        untagged_header + "20020000");
}

TEST_CASE("a TERMINATE for an error of DDP tells the length and the DDP header") {
  const std::string tagged =
      "c140"
      "00000001"
      "0000000000000002";
  CHECK(emitted(TerminateReason::ddp_tagged_stag, from_hex(tagged + "aabb")) ==
        untagged_header + "1100c000" + "0010" + tagged);
  const std::string untagged =
      "4143"
      "00000000"
      "00000000"
      "00000007"
      "00000000";
  CHECK(emitted(TerminateReason::ddp_untagged_no_buffer, from_hex(untagged)) ==
        untagged_header + "1202c000" + "0012" + untagged);
}

TEST_CASE("a TERMINATE for an error of RDMAP tells the READ request too") {
  const std::string request =
      "4141"
      "00000000"
      "00000001"
      "00000001"
      "00000000"
      "00000001"
      "0000000000000002"
      "00000003"
      "00000004"
      "0000000000000005";
  CHECK(emitted(TerminateReason::rdmap_stag, from_hex(request)) ==
        untagged_header + "0100e000" + "002e" + request);
  // A WRITE has no RDMAP header.
  const std::string write =
      "c140"
      "00000001"
      "0000000000000002";
  CHECK(emitted(TerminateReason::rdmap_access, from_hex(write)) ==
        untagged_header + "0102c000" + "000e" + write);
}

TEST_CASE("a segment too short for its headers is not told") {
  for (const std::string hex : {"", "c1", "c140", "c14000", "4143000000000000"}) {
    CHECK(emitted(TerminateReason::rdmap_version, from_hex(hex)) == untagged_header + "02050000");
  }
}

TEST_CASE("a TERMINATE is itself a segment") {
  Bytes bytes(terminate_ulpdu_bytes_max);
  bytes.resize(emit_terminate(bytes, TerminateReason::ddp_untagged_version, {}));
  const auto segment = SegmentView::parse(bytes);
  REQUIRE(segment);
  CHECK(segment->opcode() == RdmapOpcode::terminate);
  const auto header = segment->rdmap<TerminateHeader>();
  CHECK(find_reason(header.to_code()) == TerminateReason::ddp_untagged_version);
  CHECK(header.flags == 0);
}

}  // namespace verbena::iwarp
