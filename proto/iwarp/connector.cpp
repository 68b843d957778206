#include "proto/iwarp/connector.h"

#include <utility>

#include "base/check.h"
#include "proto/iwarp/fpdu_writer.h"

namespace verbena::iwarp {

MpaConnector::MpaConnector(const MpaSettings& settings, bool is_initiator)
    : settings_(settings),
      is_initiator_(is_initiator),
      state_(is_initiator ? State::idle : State::waiting),
      reader_(is_initiator ? StartKind::reply : StartKind::request) {}

std::size_t MpaConnector::private_data_room() const {
  // A connection may turn out to be of either revision.
  const std::size_t own_bytes = settings_.legacy_depths  ? legacy_depths_bytes
                                : settings_.revision > 1 ? enhanced_parameters_bytes
                                                         : 0;
  return private_data_bytes_max - own_bytes;
}

void MpaConnector::connect(ReadDepths depths, ByteView private_data) {
  VERBENA_CHECK(state_ == State::idle);
  depths_ = depths;
  say(make_request(settings_, depths, private_data));
  state_ = State::waiting;
}

void MpaConnector::accept(ReadDepths depths, ByteView private_data) {
  VERBENA_CHECK(state_ == State::asked);
  say(make_reply(settings_, *peer_frame_, depths, private_data));
  agreement_ = agree_as_responder(*peer_frame_, depths, own_frame_);
  state_ = State::agreed;
}

void MpaConnector::reject(ByteView private_data) {
  VERBENA_CHECK(state_ == State::asked);
  say(make_reject(settings_, *peer_frame_, private_data));
  refuse("rejected by the consumer");
}

void MpaConnector::on_stream(ByteView& stream) {
  if (state_ != State::waiting) {
    return;
  }
  const auto frame = reader_.take(stream);
  if (!frame) {
    refuse(describe(frame.error()));
  } else if (*frame) {
    take(**frame);
  }
}

void MpaConnector::take(const StartFrame& frame) {
  peer_frame_ = frame;
  complete_frame(settings_, *peer_frame_);
  if (!is_initiator_) {
    if (const auto checked = check_request(settings_, frame); !checked) {
      say(make_reject(settings_, frame, {}));
      return refuse(std::string(name_of(checked.error())));
    }
    state_ = State::asked;
    return;
  }
  const auto agreed = agree_as_initiator(settings_, own_frame_, depths_, *peer_frame_);
  if (agreed) {
    agreement_ = *agreed;
    state_ = State::agreed;
    return;
  }
  // The responder takes the connection to be there already (RFC 6581, 8).
  if (agreed.error() == MpaRefusal::ird_insufficient) {
    say_terminate(TerminateReason::llp_ird_insufficient, frame);
  } else if (agreed.error() == MpaRefusal::no_matching_rtr) {
    say_terminate(TerminateReason::llp_no_matching_rtr, frame);
  }
  refuse(std::string(name_of(agreed.error())));
}

void MpaConnector::say(const StartFrame& frame) {
  const auto bytes = start_frame_bytes(frame);
  VERBENA_CHECK(bytes && *bytes <= own_.size());
  own_bytes_ = *bytes;
  written_ = 0;
  emit_start_frame(own_, frame);
  own_frame_ = frame;
  own_frame_.private_data = {};
}

void MpaConnector::say_terminate(TerminateReason reason, const StartFrame& reply) {
  std::array<std::byte, terminate_ulpdu_bytes_max> ulpdu{};
  const std::size_t ulpdu_bytes = emit_terminate(ulpdu, reason, {});
  FpduWriter writer({.markers = reply.markers, .crc = own_frame_.crc || reply.crc});
  own_bytes_ = writer.size_of(ulpdu_bytes);
  written_ = 0;
  const MutableBytes fpdu = MutableBytes(own_).first(own_bytes_);
  copy_bytes(writer.ulpdu_room(fpdu, ulpdu_bytes), ByteView(ulpdu).first(ulpdu_bytes));
  writer.finish(fpdu, ulpdu_bytes);
}

void MpaConnector::refuse(std::string reason) {
  reason_ = std::move(reason);
  state_ = State::refused;
}

}  // namespace verbena::iwarp
