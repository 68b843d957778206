#include "proto/iwarp/negotiation.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace verbena::iwarp {
namespace {

constexpr std::uint8_t revision_min = 1;
constexpr std::uint8_t revision_enhanced = 2;

/// In the order in which a responder chooses: a WRITE needs no answer, a READ needs a place among
/// those in flight.
constexpr std::array rtr_preference{RtrType::write, RtrType::zero_length_fpdu, RtrType::read};

ReadDepths told(ReadDepths depths) {
  return {.ird = std::min(depths.ird, read_depth_max), .ord = std::min(depths.ord, read_depth_max)};
}

/// The RTR of a connection: the one type that both know and that is chosen first. A READ must also
/// be one that the responder takes.
std::optional<RtrType> choose_rtr(RtrTypes both, std::uint16_t responder_ird) {
  for (const RtrType type : rtr_preference) {
    if (both.has(type) && (type != RtrType::read || responder_ird > 0)) {
      return type;
    }
  }
  return std::nullopt;
}

/// Ours cut to what the peer takes; the value for "not negotiated" cuts nothing.
std::uint16_t cut(std::uint16_t ord, std::uint16_t peer_ird) {
  return peer_ird == read_depth_open ? ord : std::min(ord, peer_ird);
}

/// One side of what both frames say about the bytes that follow.
MpaAgreement agree(const StartFrame& ours, const StartFrame& peers) {
  const bool crc = ours.crc || peers.crc;
  return {.revision = std::min(ours.revision, peers.revision),
          .send_format = {.markers = peers.markers, .crc = crc},
          .receive_format = {.markers = ours.markers, .crc = crc},
          .depths = {},
          .rtr = std::nullopt};
}

}  // namespace

std::string_view name_of(MpaRefusal refusal) noexcept {
  switch (refusal) {
    case MpaRefusal::rejected_by_peer:
      return "rejected by the peer";
    case MpaRefusal::revision:
      return "MPA revision not supported";
    case MpaRefusal::crc:
      return "no agreement about CRC";
    case MpaRefusal::malformed:
      return "start frame that makes no sense";
    case MpaRefusal::ird_insufficient:
      return "insufficient IRD resources";
    case MpaRefusal::no_matching_rtr:
      return "no matching RTR option";
  }
  return "unknown";
}

std::optional<ReadDepths> depths_of(const StartFrame& frame) {
  return frame.enhanced ? std::optional(frame.enhanced->depths) : frame.legacy_depths;
}

StartFrame make_request(const MpaSettings& settings, ReadDepths depths, ByteView private_data) {
  StartFrame request{.kind = StartKind::request,
                     .revision = settings.revision,
                     .markers = settings.markers,
                     .crc = settings.crc == CrcPolicy::ask,
                     .reject = false,
                     .enhanced = std::nullopt,
                     .legacy_depths = std::nullopt,
                     .private_data = private_data};
  if (settings.revision >= revision_enhanced) {
    request.enhanced = EnhancedParameters{.depths = told(depths),
                                          .peer_to_peer = settings.peer_to_peer,
                                          .rtr = settings.peer_to_peer ? settings.rtr : RtrTypes()};
  } else if (settings.legacy_depths) {
    request.legacy_depths = told(depths);
  }
  return request;
}

void complete_frame(const MpaSettings& settings, StartFrame& frame) {
  // A refusal tells none: all of its private data is the consumer's.
  if (settings.legacy_depths && !frame.reject) {
    take_legacy_depths(frame);
  }
}

Result<void, MpaRefusal> check_request(const MpaSettings& settings, const StartFrame& request) {
  if (request.revision < revision_min || request.revision > settings.revision) {
    return std::unexpected(MpaRefusal::revision);
  }
  if (request.reject) {
    return std::unexpected(MpaRefusal::malformed);
  }
  if (request.crc && settings.crc == CrcPolicy::refuse) {
    return std::unexpected(MpaRefusal::crc);
  }
  return {};
}

StartFrame make_reply(const MpaSettings& settings, const StartFrame& request, ReadDepths depths,
                      ByteView private_data) {
  StartFrame reply{.kind = StartKind::reply,
                   .revision = request.revision,
                   .markers = settings.markers,
                   .crc = request.crc || settings.crc == CrcPolicy::ask,
                   .reject = false,
                   .enhanced = std::nullopt,
                   .legacy_depths = std::nullopt,
                   .private_data = private_data};
  if (request.legacy_depths) {
    reply.legacy_depths = {.ird = told(depths).ird,
                           .ord = cut(told(depths).ord, request.legacy_depths->ird)};
  }
  if (!request.enhanced) {
    return reply;
  }
  const EnhancedParameters& offer = *request.enhanced;
  depths = told(depths);
  reply.enhanced =
      EnhancedParameters{.depths = {.ird = depths.ird, .ord = cut(depths.ord, offer.depths.ird)},
                         .peer_to_peer = offer.peer_to_peer,
                         .rtr = {}};
  // The responder answers with the one that it wants. If there is none, the initiator sees it, and
  // tells by TERMINATE.
  if (offer.peer_to_peer) {
    if (const auto type = choose_rtr(offer.rtr & settings.rtr, depths.ird)) {
      reply.enhanced->rtr.set(*type, true);
    }
  }
  return reply;
}

StartFrame make_reject(const MpaSettings& settings, const StartFrame& request,
                       ByteView private_data) {
  StartFrame reply = make_reply(settings, request, {}, private_data);
  reply.reject = true;
  if (reply.enhanced) {
    reply.enhanced = EnhancedParameters{};
  }
  reply.legacy_depths.reset();
  return reply;
}

Result<MpaAgreement, MpaRefusal> agree_as_initiator(const MpaSettings& settings,
                                                    const StartFrame& request, ReadDepths depths,
                                                    const StartFrame& reply) {
  VERBENA_CHECK(request.kind == StartKind::request && reply.kind == StartKind::reply);
  if (reply.reject) {
    return std::unexpected(MpaRefusal::rejected_by_peer);
  }
  if (reply.revision < revision_min || reply.revision > request.revision) {
    return std::unexpected(MpaRefusal::revision);
  }
  if (reply.crc && settings.crc == CrcPolicy::refuse) {
    return std::unexpected(MpaRefusal::crc);
  }
  MpaAgreement agreement = agree(request, reply);
  agreement.depths = depths;
  if (reply.enhanced && !request.enhanced) {
    return std::unexpected(MpaRefusal::malformed);
  }
  const auto told_by_peer = depths_of(reply);
  if (!told_by_peer) {
    return agreement;
  }
  if (told_by_peer->ord != read_depth_open && told_by_peer->ord > depths.ird) {
    return std::unexpected(MpaRefusal::ird_insufficient);
  }
  agreement.depths.ord = cut(depths.ord, told_by_peer->ird);
  if (reply.enhanced && request.enhanced->peer_to_peer && reply.enhanced->peer_to_peer) {
    agreement.rtr = choose_rtr(request.enhanced->rtr & reply.enhanced->rtr, told_by_peer->ird);
    if (!agreement.rtr) {
      return std::unexpected(MpaRefusal::no_matching_rtr);
    }
  }
  return agreement;
}

MpaAgreement agree_as_responder(const StartFrame& request, ReadDepths depths,
                                const StartFrame& reply) {
  VERBENA_CHECK(request.kind == StartKind::request && reply.kind == StartKind::reply);
  MpaAgreement agreement = agree(reply, request);
  agreement.depths = depths;
  if (const auto told_by_us = depths_of(reply)) {
    agreement.depths.ord = told_by_us->ord;
  }
  if (request.enhanced && reply.enhanced) {
    agreement.rtr = choose_rtr(reply.enhanced->rtr, reply.enhanced->depths.ird);
  }
  return agreement;
}

}  // namespace verbena::iwarp
