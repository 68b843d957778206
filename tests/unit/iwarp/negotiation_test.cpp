// What two peers agree on, for every pair of settings, and the rules that a responder's choice
// binds the initiator (RFC 5044, 7.1; RFC 6581, 3, 4 and 8).
#include "proto/iwarp/negotiation.h"

#include <array>
#include <catch2/catch.hpp>

namespace verbena::iwarp {
namespace {

constexpr ReadDepths some_depths{.ird = 8, .ord = 4};

struct Outcome {
  Result<MpaAgreement, MpaRefusal> initiator;
  MpaAgreement responder;
};

/// Both ends of a connection whose consumers accept.
Outcome connect(const MpaSettings& initiator, const MpaSettings& responder,
                ReadDepths initiator_depths = some_depths,
                ReadDepths responder_depths = some_depths) {
  const StartFrame request = make_request(initiator, initiator_depths, {});
  REQUIRE(check_request(responder, request));
  const StartFrame reply = make_reply(responder, request, responder_depths, {});
  return {agree_as_initiator(initiator, request, initiator_depths, reply),
          agree_as_responder(request, responder_depths, reply)};
}

Result<MpaAgreement, MpaRefusal> on_reply(const MpaSettings& settings, const StartFrame& reply) {
  return agree_as_initiator(settings, make_request(settings, some_depths, {}), some_depths, reply);
}

StartFrame plain_reply(EnhancedParameters parameters = {}) {
  return {.kind = StartKind::reply, .revision = 2, .enhanced = parameters};
}

}  // namespace

TEST_CASE("CRC is used as soon as one side asks, and never against a refusal") {
  constexpr CrcPolicy policies[] = {CrcPolicy::ask, CrcPolicy::accept, CrcPolicy::refuse};
  for (const CrcPolicy ours : policies) {
    for (const CrcPolicy theirs : policies) {
      INFO(static_cast<int>(ours) << ' ' << static_cast<int>(theirs));
      const MpaSettings initiator{.crc = ours};
      const MpaSettings responder{.crc = theirs};
      const StartFrame request = make_request(initiator, some_depths, {});
      const bool asked = ours == CrcPolicy::ask;
      CHECK(request.crc == asked);
      if (asked && theirs == CrcPolicy::refuse) {
        CHECK(check_request(responder, request).error() == MpaRefusal::crc);
        continue;
      }
      const Outcome outcome = connect(initiator, responder);
      if (ours == CrcPolicy::refuse && theirs == CrcPolicy::ask) {
        CHECK(outcome.initiator.error() == MpaRefusal::crc);
        continue;
      }
      const bool expected = asked || theirs == CrcPolicy::ask;
      REQUIRE(outcome.initiator);
      CHECK(outcome.initiator->send_format.crc == expected);
      CHECK(outcome.initiator->receive_format.crc == expected);
      CHECK(outcome.responder.send_format.crc == expected);
      CHECK(outcome.responder.receive_format.crc == expected);
    }
  }
}

TEST_CASE("each side says whether it wants markers in what it receives") {
  for (const bool ours : {false, true}) {
    for (const bool theirs : {false, true}) {
      const Outcome outcome = connect({.markers = ours}, {.markers = theirs});
      REQUIRE(outcome.initiator);
      CHECK(outcome.initiator->receive_format.markers == ours);
      CHECK(outcome.responder.send_format.markers == ours);
      CHECK(outcome.initiator->send_format.markers == theirs);
      CHECK(outcome.responder.receive_format.markers == theirs);
    }
  }
}

TEST_CASE("a responder answers with the revision of the request, and refuses one above its own") {
  for (const std::uint8_t revision : {std::uint8_t{1}, std::uint8_t{2}}) {
    const Outcome outcome = connect({.revision = revision}, {.revision = 2});
    REQUIRE(outcome.initiator);
    CHECK(outcome.initiator->revision == revision);
    CHECK(outcome.responder.revision == revision);
  }
  const StartFrame request = make_request({.revision = 2}, some_depths, {});
  CHECK(check_request({.revision = 1}, request).error() == MpaRefusal::revision);
  StartFrame reply = plain_reply();
  reply.revision = 3;
  CHECK(on_reply({}, reply).error() == MpaRefusal::revision);
}

TEST_CASE("the initiator has no more READs in flight than the responder takes, and the other way") {
  const Outcome outcome = connect({}, {}, {.ird = 3, .ord = 10}, {.ird = 5, .ord = 20});
  REQUIRE(outcome.initiator);
  CHECK(outcome.initiator->depths == ReadDepths{.ird = 3, .ord = 5});
  CHECK(outcome.responder.depths == ReadDepths{.ird = 5, .ord = 3});
}

TEST_CASE("without READs a connection works") {
  const Outcome outcome = connect({}, {}, {.ird = 0, .ord = 0}, {.ird = 0, .ord = 0});
  REQUIRE(outcome.initiator);
  CHECK(outcome.initiator->depths == ReadDepths{});
  CHECK(outcome.responder.depths == ReadDepths{});
}

TEST_CASE("a responder that wants more READs than the initiator takes is refused") {
  CHECK(on_reply({}, plain_reply({.depths = {.ird = 1, .ord = 9}})).error() ==
        MpaRefusal::ird_insufficient);
  CHECK(on_reply({}, plain_reply({.depths = {.ird = 1, .ord = 8}})));
}

TEST_CASE("a depth that is left open cuts nothing") {
  const auto agreement =
      on_reply({}, plain_reply({.depths = {.ird = read_depth_open, .ord = read_depth_open}}));
  REQUIRE(agreement);
  CHECK(agreement->depths == some_depths);
}

TEST_CASE("revision 1 doesn't negotiate depths") {
  const Outcome outcome =
      connect({.revision = 1}, {}, {.ird = 3, .ord = 10}, {.ird = 5, .ord = 20});
  REQUIRE(outcome.initiator);
  CHECK(outcome.initiator->depths == ReadDepths{.ird = 3, .ord = 10});
  CHECK(outcome.responder.depths == ReadDepths{.ird = 5, .ord = 20});
}

TEST_CASE("legacy depths: revision 1 negotiates them as revision 2 does, if both are told to") {
  const MpaSettings legacy{.revision = 1, .legacy_depths = true};
  const MpaSettings newer{.legacy_depths = true};
  const bool is_newer = GENERATE(false, true);
  StartFrame request = make_request(legacy, {.ird = 3, .ord = 10}, {});
  CHECK(request.legacy_depths == ReadDepths{.ird = 3, .ord = 10});
  const StartFrame reply =
      make_reply(is_newer ? newer : legacy, request, {.ird = 5, .ord = 20}, {});
  CHECK(reply.legacy_depths == ReadDepths{.ird = 5, .ord = 3});
  const auto initiator = agree_as_initiator(legacy, request, {.ird = 3, .ord = 10}, reply);
  REQUIRE(initiator);
  CHECK(initiator->depths == ReadDepths{.ird = 3, .ord = 5});
  CHECK(agree_as_responder(request, {.ird = 5, .ord = 20}, reply).depths ==
        ReadDepths{.ird = 5, .ord = 3});

  // Nobody is told who hasn't told, and a refusal tells nothing.
  request.legacy_depths.reset();
  CHECK_FALSE(make_reply(legacy, request, some_depths, {}).legacy_depths);
  CHECK_FALSE(make_reject(legacy, request, {}).legacy_depths);
  const std::array<std::byte, 9> words{};
  StartFrame refusal = make_reject(legacy, request, words);
  complete_frame(legacy, refusal);
  CHECK_FALSE(refusal.legacy_depths);
  CHECK(refusal.private_data.size() == words.size());
  // Revision 2 has words of its own.
  CHECK_FALSE(make_request(newer, some_depths, {}).legacy_depths);
}

TEST_CASE("a reply in the legacy form that wants more READs than are taken is refused") {
  const MpaSettings legacy{.revision = 1, .legacy_depths = true};
  StartFrame reply{.kind = StartKind::reply, .revision = 1};
  reply.legacy_depths = {.ird = 1, .ord = 9};
  CHECK(on_reply(legacy, reply).error() == MpaRefusal::ird_insufficient);
}

TEST_CASE("the initiator sends the RTR that the responder chose, not the one it likes best") {
  const MpaSettings both{.peer_to_peer = true, .rtr = {RtrType::write, RtrType::read}};
  const Outcome outcome = connect(both, {.rtr = {RtrType::read}});
  REQUIRE(outcome.initiator);
  CHECK(outcome.initiator->rtr == RtrType::read);
  CHECK(outcome.responder.rtr == RtrType::read);

  EnhancedParameters answer{.depths = {.ird = 1}, .peer_to_peer = true, .rtr = {RtrType::read}};
  CHECK(on_reply(both, plain_reply(answer))->rtr == RtrType::read);
  answer.rtr = {RtrType::write};
  CHECK(on_reply(both, plain_reply(answer))->rtr == RtrType::write);
}

TEST_CASE("a READ is no RTR where the responder takes none") {
  const MpaSettings settings{.peer_to_peer = true, .rtr = {RtrType::read}};
  const Outcome outcome = connect(settings, settings, some_depths, {.ird = 0, .ord = 0});
  REQUIRE_FALSE(outcome.initiator);
  CHECK(outcome.initiator.error() == MpaRefusal::no_matching_rtr);
}

TEST_CASE("no RTR that both know ends the attempt") {
  const MpaSettings ours{.peer_to_peer = true, .rtr = {RtrType::zero_length_fpdu}};
  const Outcome outcome = connect(ours, {.rtr = {RtrType::write}});
  REQUIRE_FALSE(outcome.initiator);
  CHECK(outcome.initiator.error() == MpaRefusal::no_matching_rtr);
}

TEST_CASE("who doesn't offer peer-to-peer gets no RTR") {
  const Outcome outcome = connect({.peer_to_peer = false}, {.peer_to_peer = true});
  REQUIRE(outcome.initiator);
  CHECK_FALSE(outcome.initiator->rtr);
  CHECK_FALSE(outcome.responder.rtr);
}

TEST_CASE("frames that make no sense are refused") {
  StartFrame request = make_request({}, some_depths, {});
  request.reject = true;
  CHECK(check_request({}, request).error() == MpaRefusal::malformed);
  CHECK(on_reply({.revision = 1},
                 [] {
                   StartFrame reply = plain_reply();
                   reply.revision = 1;
                   return reply;
                 }())
            .error() == MpaRefusal::malformed);
}

TEST_CASE("a rejection is told to the initiator, whatever else the reply says") {
  const StartFrame request = make_request({}, some_depths, {});
  const StartFrame reply = make_reject({}, request, {});
  CHECK(reply.reject);
  CHECK(reply.enhanced == EnhancedParameters{});
  CHECK(agree_as_initiator({}, request, some_depths, reply).error() ==
        MpaRefusal::rejected_by_peer);
}

TEST_CASE("every refusal has words") {
  for (const MpaRefusal refusal :
       {MpaRefusal::rejected_by_peer, MpaRefusal::revision, MpaRefusal::crc, MpaRefusal::malformed,
        MpaRefusal::ird_insufficient, MpaRefusal::no_matching_rtr}) {
    CHECK(name_of(refusal) != "unknown");
  }
}

}  // namespace verbena::iwarp
