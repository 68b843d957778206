// What comes in: SENDs into receives, WRITEs into memory, READ requests into the queue of answers,
// READ responses into the memory of our READs, TERMINATE. Each check that fails has the reason that
// the TERMINATE tells (RFC 5040, 8; RFC 5041, 7).
#include <utility>

#include "proto/iwarp/stream_faults.h"
#include "proto/iwarp/stream_qp.h"
#include "proto/sge_copy.h"

namespace verbena::iwarp {
namespace {

/// What DDP says of a tagged segment that has no right to its memory. It has no code for missing
/// rights: they are RDMAP's business.
TerminateReason tagged_reason(AccessFault fault) {
  switch (fault) {
    case AccessFault::unknown_key:
    case AccessFault::wrong_window:
      return TerminateReason::ddp_tagged_stag;
    case AccessFault::wrong_pd:
    case AccessFault::wrong_qp:
      return TerminateReason::ddp_tagged_stag_not_associated;
    case AccessFault::not_permitted:
      return TerminateReason::rdmap_access;
    case AccessFault::out_of_range:
      return TerminateReason::ddp_tagged_bounds;
    case AccessFault::not_present:
      return TerminateReason::ddp_local_catastrophic;
  }
  return TerminateReason::ddp_tagged_stag;
}

/// How a READ or an atomic of ours ended that the peer refused so; nothing if it isn't of those
/// that RDMAP refuses.
std::optional<WcStatus> refused_with(const TerminateCode& code) {
  constexpr std::uint8_t remote_protection = 1;
  constexpr std::uint8_t remote_operation = 2;
  if (code.layer == TerminateLayer::rdmap && code.type == remote_protection) {
    return WcStatus::rem_access_err;
  }
  if (code.layer == TerminateLayer::rdmap && code.type == remote_operation) {
    return WcStatus::rem_inv_req_err;
  }
  return std::nullopt;
}

}  // namespace

void StreamQp::on_stream(StreamEnv& env, ByteView bytes) {
  while (state_ == StreamState::rts || state_ == StreamState::closing) {
    const auto fpdu = receiver_->next(bytes);
    if (!fpdu) {
      env.counters.add(Counter::rx_fpdu_err);
      terminate(env,
                fpdu.error() == FpduError::crc ? TerminateReason::llp_crc
                                               : TerminateReason::llp_fpdu_length,
                {});
      return;
    }
    if (!*fpdu) {
      return;
    }
    env.counters.add(Counter::rcvd_pkts);
    on_ulpdu(env, (*fpdu)->ulpdu);
  }
}

void StreamQp::on_ulpdu(StreamEnv& env, ByteView ulpdu) {
  const bool is_first = !std::exchange(has_received_, true);
  if (ulpdu.empty() && is_first && !connection_.is_initiator &&
      connection_.agreement.rtr == RtrType::zero_length_fpdu) {
    return;
  }
  const auto segment = SegmentView::parse(ulpdu);
  const Checked refused = segment ? execute(env, *segment) : segment.error();
  // Nothing of what follows a TERMINATE is answered, least of all by another.
  if (refused && !received_terminate_) {
    terminate(env, *refused, ulpdu);
  }
}

StreamQp::Checked StreamQp::execute(StreamEnv& env, const SegmentView& segment) {
  switch (segment.opcode()) {
    case RdmapOpcode::send:
    case RdmapOpcode::send_invalidate:
    case RdmapOpcode::send_solicited:
    case RdmapOpcode::send_solicited_invalidate:
      return on_send(env, segment);
    case RdmapOpcode::write:
      return on_write(env, segment);
    case RdmapOpcode::read_request:
      return on_read_request(env, segment);
    case RdmapOpcode::read_response:
      return on_read_response(env, segment);
    case RdmapOpcode::terminate:
      on_terminate(env, segment);
      return std::nullopt;
    case RdmapOpcode::immediate:
    case RdmapOpcode::immediate_solicited:
    case RdmapOpcode::atomic_request:
    case RdmapOpcode::atomic_response:
      return execute_extension(env, segment);
  }
  return TerminateReason::rdmap_opcode;
}

/// In the order of RFC 5041, 6.2 and 7.2: sequence number, buffer, offset, length.
StreamQp::Checked StreamQp::check_send(StreamEnv& env, const SegmentView& segment) {
  const auto header = segment.untagged();
  if (header.msn.value() != expected_send_msn_) {
    return TerminateReason::ddp_untagged_msn_range;
  }
  if (receives_.empty()) {
    env.counters.add(Counter::out_of_buffer);
    return TerminateReason::ddp_untagged_no_buffer;
  }
  if (header.message_offset.value() != received_bytes_) {
    return TerminateReason::ddp_untagged_message_offset;
  }
  // All segments of a message are of one operation.
  if (inbound_send_ && *inbound_send_ != segment.opcode()) {
    return TerminateReason::rdmap_opcode;
  }
  const std::uint64_t room = total_length(receives_.front().sges);
  if (received_bytes_ + std::uint64_t{segment.payload().size()} > room) {
    env.counters.add(Counter::resp_local_length_error);
    complete_receive(env, WcStatus::loc_len_err, {}, false);
    return TerminateReason::ddp_untagged_too_long;
  }
  return std::nullopt;
}

StreamQp::Checked StreamQp::on_send(StreamEnv& env, const SegmentView& segment) {
  if (const Checked refused = check_send(env, segment)) {
    return refused;
  }
  inbound_send_ = segment.opcode();
  receives_.hold();
  const RecvWr receive = receives_.front();
  if (!scatter(env.memory, connection_.pd, receive.sges, received_bytes_, segment.payload())) {
    complete_receive(env, WcStatus::loc_prot_err, {}, false);
    return TerminateReason::ddp_local_catastrophic;
  }
  received_bytes_ += static_cast<std::uint32_t>(segment.payload().size());
  return segment.is_last() ? end_send(env, segment) : std::nullopt;
}

StreamQp::Checked StreamQp::end_send(StreamEnv& env, const SegmentView& segment) {
  Completion completion;
  completion.byte_len = received_bytes_;
  if (segment.info().invalidates) {
    const Rkey stag{segment.untagged().invalidate_stag.value()};
    if (!env.memory.invalidate(memory_user(), stag)) {
      return TerminateReason::rdmap_protection_invalidate;
    }
    completion.with_inv = true;
    completion.imm_or_rkey = to_value(stag);
  }
  ++expected_send_msn_;
  received_bytes_ = written_bytes_ = 0;
  inbound_send_.reset();
  env.counters.add(Counter::rdma_recvs);
  complete_receive(env, WcStatus::success, completion, segment.info().is_solicited);
  return std::nullopt;
}

StreamQp::Checked StreamQp::on_write(StreamEnv& env, const SegmentView& segment) {
  const auto header = segment.tagged();
  const ByteView payload = segment.payload();
  if (wraps(header.offset.value(), payload.size())) {
    return TerminateReason::ddp_tagged_offset_wrap;
  }
  // A segment without payload touches nothing, so its STag may be anything (RFC 5040, 5.2).
  if (!payload.empty()) {
    if (!allows(connection_.access, Access::remote_write)) {
      env.counters.add(Counter::resp_remote_access_errors);
      return TerminateReason::rdmap_access;
    }
    const auto memory =
        env.memory.remote(memory_user(), Rkey{header.stag.value()}, Va{header.offset.value()},
                          payload.size(), Access::remote_write);
    if (!memory) {
      env.counters.add(Counter::resp_remote_access_errors);
      return tagged_reason(memory.error());
    }
    place(*memory, payload);
  }
  written_bytes_ =
      static_cast<std::uint32_t>(payload.size()) + (write_has_ended_ ? 0 : written_bytes_);
  write_has_ended_ = segment.is_last();
  if (segment.is_last()) {
    env.counters.add(Counter::rx_write_requests);
  }
  return std::nullopt;
}

/// Of READs and atomics: the next one, in one segment (RFC 5040, 4.4), and one of those that we
/// agreed to take.
StreamQp::Checked StreamQp::check_queued_request(const SegmentView& segment) const {
  const auto header = segment.untagged();
  if (header.msn.value() != expected_request_msn_) {
    return TerminateReason::ddp_untagged_msn_range;
  }
  if (header.message_offset.value() != 0) {
    return TerminateReason::ddp_untagged_message_offset;
  }
  if (!segment.is_last() || !segment.payload().empty()) {
    return TerminateReason::ddp_untagged_too_long;
  }
  if (answers_count_ >= connection_.agreement.depths.ird) {
    return TerminateReason::ddp_untagged_no_buffer;
  }
  return std::nullopt;
}

StreamQp::Checked StreamQp::on_read_request(StreamEnv& env, const SegmentView& segment) {
  if (const Checked refused = check_queued_request(segment)) {
    return refused;
  }
  const auto request = segment.rdmap<ReadRequestHeader>();
  const std::uint32_t size_bytes = request.size_bytes.value();
  if (wraps(request.source_offset.value(), size_bytes)) {
    return TerminateReason::rdmap_offset_wrap;
  }
  const Rkey source_stag{request.source_stag.value()};
  const Va source_offset{request.source_offset.value()};
  if (size_bytes > 0) {
    if (!allows(connection_.access, Access::remote_read)) {
      env.counters.add(Counter::resp_remote_access_errors);
      return TerminateReason::rdmap_access;
    }
    const auto permitted = env.memory.check_remote(memory_user(), source_stag, source_offset,
                                                   size_bytes, Access::remote_read);
    if (!permitted) {
      env.counters.add(Counter::resp_remote_access_errors);
      return source_reason(permitted.error());
    }
  }
  ++expected_request_msn_;
  env.counters.add(Counter::rx_read_requests);
  answers_[(answers_first_ + answers_count_++) % limits_.ird_max] =
      ReadAnswer{.sink_stag = Rkey{request.sink_stag.value()},
                 .sink_offset = Va{request.sink_offset.value()},
                 .source_stag = source_stag,
                 .source_offset = source_offset,
                 .size_bytes = size_bytes,
                 .sent_bytes = 0};
  return std::nullopt;
}

/// Responses come in the order of the requests, each from its first byte to its last (RFC 5040,
/// 5.5), so a segment has exactly one place where it may belong.
StreamQp::Checked StreamQp::on_read_response(StreamEnv& env, const SegmentView& segment) {
  const auto header = segment.tagged();
  const ByteView payload = segment.payload();
  if (rtr_read_in_flight_ && payload.empty() && segment.is_last()) {
    rtr_read_in_flight_ = false;
    return std::nullopt;
  }
  if (in_flight_ == 0 || !send_queue_.at(unanswered_).is_read()) {
    return TerminateReason::rdmap_opcode;
  }
  const SendWqe& wqe = send_queue_.at(unanswered_);
  const ReadSink sink = read_sink(send_queue_.sges(unanswered_));
  if (header.stag.value() != sink.stag) {
    return TerminateReason::ddp_tagged_stag;
  }
  const std::uint64_t expected = sink.offset + response_bytes_;
  const bool is_whole = response_bytes_ + std::uint64_t{payload.size()} == wqe.length;
  if (header.offset.value() != expected || payload.size() > wqe.length - response_bytes_ ||
      segment.is_last() != is_whole) {
    return TerminateReason::ddp_tagged_bounds;
  }
  if (!scatter(env.memory, connection_.pd, send_queue_.sges(unanswered_), response_bytes_,
               payload)) {
    cursor_ = unanswered_;
    fail_request(env, WcStatus::loc_prot_err);
    return std::nullopt;
  }
  response_bytes_ += static_cast<std::uint32_t>(payload.size());
  if (segment.is_last()) {
    end_answered(env);
  }
  return std::nullopt;
}

/// The oldest READ or atomic was answered: on to the next one that was sent.
void StreamQp::end_answered(StreamEnv& env) {
  response_bytes_ = 0;
  --in_flight_;
  do {
    ++unanswered_;
  } while (unanswered_ < cursor_ && !send_queue_.at(unanswered_).wants_data());
  complete_requests(env);
}

/// Which of our READs and atomics in flight a TERMINATE is about: the one with the number that it
/// tells, if it tells one of those.
std::optional<std::uint64_t> StreamQp::blamed_request(const SegmentView& segment) const {
  const auto flags = segment.rdmap<TerminateHeader>().flags;
  constexpr std::size_t told_length_bytes = 2;
  if ((flags & TerminateHeader::flag_ddp) == 0 || (flags & TerminateHeader::flag_length) == 0 ||
      segment.payload().size() < told_length_bytes + untagged_header_bytes) {
    return std::nullopt;
  }
  const auto told = read_struct<UntaggedHeader>(segment.payload().subspan(told_length_bytes));
  const std::uint32_t position = told.msn.value() - oldest_request_msn();
  if (told.control.is_tagged() || position >= in_flight_ ||
      told.queue.value() != static_cast<std::uint32_t>(DdpQueue::read_request)) {
    return std::nullopt;
  }
  std::uint64_t index = unanswered_;
  for (std::uint32_t passed = 0; passed < position;) {
    passed += send_queue_.at(++index).wants_data() ? 1 : 0;
  }
  return index;
}

/// The peer ends the stream. If it is about a READ or an atomic, that one failed; those before it
/// were given up with it. Missing rights that name no request are those of the oldest one.
void StreamQp::on_terminate(StreamEnv& env, const SegmentView& segment) {
  const auto header = segment.rdmap<TerminateHeader>();
  received_terminate_ = header.to_code();
  env.counters.add(Counter::rcvd_terminates);
  state_ = StreamState::terminate;
  complete_requests(env);
  const auto status = refused_with(*received_terminate_);
  if (in_flight_ > 0 && status) {
    auto blamed = blamed_request(segment);
    const bool is_access = *status == WcStatus::rem_access_err;
    if (!blamed && is_access) {
      blamed = unanswered_;
    }
    if (blamed) {
      env.counters.add(is_access ? Counter::req_remote_access_errors
                                 : Counter::req_remote_invalid_request);
      while (send_queue_.head() < *blamed) {
        complete_request(env, WcStatus::wr_flush_err);
      }
      complete_request(env, *status);
      failed_with_ = status;
    }
  }
  flush(env);
}

}  // namespace verbena::iwarp
