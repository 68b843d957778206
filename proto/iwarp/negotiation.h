// What two peers agree on with their start frames: revision, CRC, markers, how many READs may be in
// flight, and how the initiator shows that it is ready. Pure functions over frames; who sends them
// when, and how long one waits, is the business of the connection manager. Read first: RFC 5044,
// 7.1 (CRC and markers), RFC 6581, 3 and 4 (peer-to-peer, RTR, IRD and ORD).
//
//   initiator                             responder
//   make_request() ────── request ──────► check_request()
//                                         make_reply(), or make_reject()
//   agree_as_initiator() ◄── reply ────── agree_as_responder()
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "proto/iwarp/mpa.h"
#include "proto/iwarp/start_frame.h"

namespace verbena::iwarp {

/// CRC is used in both directions as soon as one side asks for it (RFC 5044, 7.1).
enum class CrcPolicy : std::uint8_t {
  ask,     ///< Ask for it.
  accept,  ///< Use it if the peer asks.
  refuse,  ///< No connection with a peer that asks.
};

/// Settings for peers in the field.
struct MpaSettings {
  /// The revision of our requests, and the highest that we reply to: 1 or 2.
  std::uint8_t revision = 2;
  CrcPolicy crc = CrcPolicy::ask;
  /// We want markers in what we receive. What we send has them if the peer wants so.
  bool markers = false;
  /// The initiator shows with an RTR that it is ready, so that the responder may send first.
  bool peer_to_peer = false;
  /// What we offer and accept for it.
  RtrTypes rtr{RtrType::write, RtrType::read};
  /// In connections of revision 1 both sides tell IRD and ORD in front of their private data.
  bool legacy_depths = false;
};

/// What holds for a connection in the end.
struct MpaAgreement {
  std::uint8_t revision = 1;
  FpduFormat send_format;
  FpduFormat receive_format;
  /// Ours: READs that we take, and READs that we may have in flight.
  ReadDepths depths;
  /// What the initiator sends first.
  std::optional<RtrType> rtr;
};

enum class MpaRefusal : std::uint8_t {
  /// The reply has the reject flag.
  rejected_by_peer,
  revision,
  /// The peer asks for CRC, and we refuse it; or it forgot that we asked.
  crc,
  /// A request with the reject flag, a reply with parameters that nobody asked for.
  malformed,
  /// The responder wants more READs in flight than we take. Told by TERMINATE (RFC 6581, 8).
  ird_insufficient,
  /// No RTR that both know. Told by TERMINATE.
  no_matching_rtr,
};
[[nodiscard]] std::string_view name_of(MpaRefusal refusal) noexcept;

/// What the frame says of READs, be it enhanced parameters or the form of revision 1.
[[nodiscard]] std::optional<ReadDepths> depths_of(const StartFrame& frame);

/// `private_data` is kept as a view.
[[nodiscard]] StartFrame make_request(const MpaSettings& settings, ReadDepths depths,
                                      ByteView private_data);

/// What peer and settings agree on how to read: to be called on each frame that comes.
void complete_frame(const MpaSettings& settings, StartFrame& frame);

/// Whether a request is one that we can answer: before the consumer is asked.
[[nodiscard]] Result<void, MpaRefusal> check_request(const MpaSettings& settings,
                                                     const StartFrame& request);

/// `depths` are what the consumer accepts with; the reply's are cut to what the initiator offers.
[[nodiscard]] StartFrame make_reply(const MpaSettings& settings, const StartFrame& request,
                                    ReadDepths depths, ByteView private_data);
[[nodiscard]] StartFrame make_reject(const MpaSettings& settings, const StartFrame& request,
                                     ByteView private_data);

/// `depths` are the ones that request or reply was made with.
[[nodiscard]] Result<MpaAgreement, MpaRefusal> agree_as_initiator(const MpaSettings& settings,
                                                                  const StartFrame& request,
                                                                  ReadDepths depths,
                                                                  const StartFrame& reply);
[[nodiscard]] MpaAgreement agree_as_responder(const StartFrame& request, ReadDepths depths,
                                              const StartFrame& reply);

}  // namespace verbena::iwarp
