// The exchange of start frames over a stream that comes in any pieces: who asks, who answers, what
// is agreed on, and how a connection is refused.
#include "proto/iwarp/connector.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "proto/iwarp/fpdu_receiver.h"
#include "proto/iwarp/segment.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::test {
namespace {

using iwarp::CrcPolicy;
using iwarp::MpaConnector;
using iwarp::MpaSettings;
using iwarp::RtrType;
using State = MpaConnector::State;

/// Moves what one says to the other, in pieces of so many bytes; returns what wasn't used.
std::vector<std::byte> carry(MpaConnector& from, MpaConnector& to, std::size_t piece_bytes) {
  const ByteView said = from.output();
  std::vector<std::byte> bytes(said.begin(), said.end());
  from.note_written(bytes.size());
  std::vector<std::byte> left;
  for (std::size_t at = 0; at < bytes.size(); at += piece_bytes) {
    ByteView piece = ByteView(bytes).subspan(at, std::min(piece_bytes, bytes.size() - at));
    to.on_stream(piece);
    left.insert(left.end(), piece.begin(), piece.end());
  }
  return left;
}

std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::ranges::transform(text, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

}  // namespace

TEST_CASE("two connectors agree whatever pieces the stream comes in, and hand over private data") {
  const std::size_t piece_bytes = GENERATE(1, 2, 3, 19, 20, 21, 1000);
  const std::size_t private_bytes = GENERATE(0, 1, 507);
  MpaConnector a = MpaConnector::initiator({});
  MpaConnector b = MpaConnector::responder({});
  std::vector<std::byte> hello(private_bytes, std::byte{0x11});
  const auto answer = bytes_of("come in");
  a.connect({.ird = 8, .ord = 3}, hello);
  CHECK(a.state() == State::waiting);
  CHECK(carry(a, b, piece_bytes).empty());
  REQUIRE(b.state() == State::asked);
  CHECK(std::ranges::equal(b.peer_frame()->private_data, hello));
  b.accept({.ird = 2, .ord = 16}, answer);
  CHECK(b.state() == State::agreed);
  CHECK(carry(b, a, piece_bytes).empty());
  REQUIRE(a.state() == State::agreed);
  CHECK(std::ranges::equal(a.peer_frame()->private_data, answer));
  // Each may have in flight what the other takes.
  CHECK(a.agreement().depths.ord == 2);
  CHECK(b.agreement().depths.ord == 8);
  CHECK(a.agreement().send_format.crc);
  CHECK(b.agreement().receive_format.crc);
}

TEST_CASE("two connectors of revision 1 tell each other depths in the legacy form") {
  const MpaSettings settings{.revision = 1, .legacy_depths = true};
  MpaConnector a = MpaConnector::initiator(settings);
  MpaConnector b = MpaConnector::responder(settings);
  const std::vector<std::byte> hello(a.private_data_room(), std::byte{0x11});
  CHECK(hello.size() == 504);
  a.connect({.ird = 8, .ord = 3}, hello);
  static_cast<void>(carry(a, b, 7));
  REQUIRE(b.state() == State::asked);
  CHECK(std::ranges::equal(b.peer_frame()->private_data, hello));
  CHECK(iwarp::depths_of(*b.peer_frame()) == iwarp::ReadDepths{.ird = 8, .ord = 3});
  b.accept({.ird = 2, .ord = 16}, {});
  static_cast<void>(carry(b, a, 7));
  REQUIRE(a.state() == State::agreed);
  CHECK(a.agreement().depths == iwarp::ReadDepths{.ird = 8, .ord = 2});
  CHECK(b.agreement().depths == iwarp::ReadDepths{.ird = 2, .ord = 8});
}

TEST_CASE("bytes behind a start frame are left for the stream") {
  MpaConnector a = MpaConnector::initiator({});
  MpaConnector b = MpaConnector::responder({});
  a.connect({}, {});
  static_cast<void>(carry(a, b, 1000));
  b.accept({}, {});
  auto bytes = std::vector<std::byte>(b.output().begin(), b.output().end());
  bytes.resize(bytes.size() + 3, std::byte{0x77});
  ByteView stream = bytes;
  a.on_stream(stream);
  CHECK(a.state() == State::agreed);
  CHECK(stream.size() == 3);
}

TEST_CASE("a rejection carries private data and ends the exchange on both sides") {
  MpaConnector a = MpaConnector::initiator({});
  MpaConnector b = MpaConnector::responder({});
  a.connect({}, {});
  static_cast<void>(carry(a, b, 1000));
  b.reject(bytes_of("no"));
  CHECK(b.state() == State::refused);
  static_cast<void>(carry(b, a, 1));
  CHECK(a.state() == State::refused);
  REQUIRE(a.peer_frame());
  CHECK(std::ranges::equal(a.peer_frame()->private_data, bytes_of("no")));
}

TEST_CASE("a request that can't be answered is rejected without the consumer") {
  MpaConnector a = MpaConnector::initiator({.crc = CrcPolicy::ask});
  MpaConnector b = MpaConnector::responder({.crc = CrcPolicy::refuse});
  a.connect({}, {});
  static_cast<void>(carry(a, b, 1000));
  CHECK(b.state() == State::refused);
  CHECK_FALSE(b.reason().empty());
  static_cast<void>(carry(b, a, 1000));
  CHECK(a.state() == State::refused);
}

TEST_CASE("a peer that speaks something else is refused at its first wrong byte") {
  MpaConnector b = MpaConnector::responder({});
  const auto get = bytes_of("GET / HTTP/1.1");
  ByteView stream = ByteView(get).first(1);
  b.on_stream(stream);
  CHECK(b.state() == State::refused);
  CHECK(b.output().empty());
}

TEST_CASE("an initiator that can't take what the reply wants says so by TERMINATE") {
  const bool about_rtr = GENERATE(false, true);
  MpaConnector a = MpaConnector::initiator(
      {.peer_to_peer = about_rtr,
       .rtr = about_rtr ? iwarp::RtrTypes{RtrType::write} : iwarp::RtrTypes{}});
  MpaConnector b = MpaConnector::responder({.rtr = {RtrType::zero_length_fpdu}});
  // A responder that doesn't look at the initiator's offer.
  MpaConnector other = MpaConnector::initiator({.peer_to_peer = about_rtr});
  (about_rtr ? a : other).connect({.ird = 16, .ord = 1}, {});
  static_cast<void>(carry(about_rtr ? a : other, b, 1000));
  if (!about_rtr) {
    a.connect({.ird = 1, .ord = 1}, {});
    a.note_written(a.output().size());
  }
  REQUIRE(b.state() == State::asked);
  b.accept({.ird = 1, .ord = 16}, {});
  static_cast<void>(carry(b, a, 1000));
  REQUIRE(a.state() == State::refused);
  iwarp::FpduReceiver receiver({});
  ByteView said = a.output();
  const auto fpdu = receiver.next(said);
  REQUIRE(fpdu);
  REQUIRE(*fpdu);
  const auto segment = iwarp::SegmentView::parse((*fpdu)->ulpdu);
  REQUIRE(segment);
  CHECK(segment->opcode() == iwarp::RdmapOpcode::terminate);
  const auto reason = iwarp::find_reason(segment->rdmap<iwarp::TerminateHeader>().to_code());
  CHECK(reason == (about_rtr ? iwarp::TerminateReason::llp_no_matching_rtr
                             : iwarp::TerminateReason::llp_ird_insufficient));
}

}  // namespace verbena::test
