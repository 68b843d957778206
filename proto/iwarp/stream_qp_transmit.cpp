// What goes out, an FPDU at a time: TERMINATE before all else, the RTR of a new connection, then
// answers to the peer's READs and our own requests, in turns.
#include <algorithm>

#include "base/check.h"
#include "proto/iwarp/fpdu_builder.h"
#include "proto/iwarp/stream_qp.h"
#include "proto/sge_copy.h"

namespace verbena::iwarp {
namespace {

RdmapOpcode opcode_of(const SendWqe& wqe) {
  switch (wqe.opcode) {
    case WrOpcode::rdma_write:
    case WrOpcode::rdma_write_with_imm:
      return RdmapOpcode::write;
    case WrOpcode::rdma_read:
      return RdmapOpcode::read_request;
    case WrOpcode::send_with_inv:
      return wqe.solicited ? RdmapOpcode::send_solicited_invalidate : RdmapOpcode::send_invalidate;
    default:
      return wqe.solicited ? RdmapOpcode::send_solicited : RdmapOpcode::send;
  }
}

TaggedHeader tagged_header(RdmapOpcode opcode, bool is_last, Rkey stag, Va offset) {
  TaggedHeader header;
  header.control = make_control(opcode, is_last);
  header.stag = to_value(stag);
  header.offset = to_value(offset);
  return header;
}

}  // namespace

StreamTransmitted StreamQp::poll_transmit(StreamEnv& env, StreamSink& sink,
                                          std::uint32_t& fpdus_max) {
  while (wants_transmit()) {
    if (fpdus_max == 0) {
      return StreamTransmitted::more;
    }
    switch (emit_next(env, sink)) {
      case Emitted::sent:
        --fpdus_max;
        break;
      case Emitted::done_here:
        break;
      case Emitted::no_room:
        return StreamTransmitted::blocked;
      case Emitted::failed:
        break;  // A TERMINATE is due now.
    }
  }
  return StreamTransmitted::idle;
}

bool StreamQp::wants_transmit() const {
  return terminate_ulpdu_bytes_ > 0 ||
         (may_send() && (rtr_is_due_ || answers_count_ > 0 || has_request_to_send())) ||
         has_local_work();
}

/// The next request needs no peer, so it doesn't wait for one.
bool StreamQp::has_local_work() const {
  const bool is_live = state_ == StreamState::rts || state_ == StreamState::closing;
  return is_live && has_request_to_send() && is_local(send_queue_.at(cursor_).opcode);
}

/// A responder first waits for an FPDU of the initiator (RFC 5044, 7.1.2): before that, the
/// initiator may not be ready.
bool StreamQp::may_send() const {
  return (state_ == StreamState::rts || state_ == StreamState::closing) &&
         (connection_.is_initiator || has_received_);
}

bool StreamQp::may_start(const SendWqe& wqe) const {
  const std::uint32_t in_flight = in_flight_ + (rtr_read_in_flight_ ? 1 : 0);
  if (wqe.fence && in_flight > 0) {
    return false;
  }
  return !wqe.wants_data() || in_flight < connection_.agreement.depths.ord;
}

bool StreamQp::has_request_to_send() const {
  return cursor_ < send_queue_.tail() &&
         (sent_bytes_ > 0 || immediate_is_due_ || may_start(send_queue_.at(cursor_)));
}

StreamQp::Emitted StreamQp::emit_next(StreamEnv& env, StreamSink& sink) {
  if (terminate_ulpdu_bytes_ > 0) {
    return emit_terminate_message(sink);
  }
  if (has_local_work()) {
    return execute_local(env, send_queue_.at(cursor_));
  }
  if (rtr_is_due_) {
    return emit_rtr(sink);
  }
  const bool answers = answers_count_ > 0 && (is_turn_of_answers_ || !has_request_to_send());
  const Emitted emitted = answers ? emit_answer(env, sink) : emit_request(env, sink);
  if (emitted == Emitted::sent) {
    is_turn_of_answers_ = !answers;
  }
  return emitted;
}

StreamQp::Emitted StreamQp::emit_terminate_message(StreamSink& sink) {
  FpduBuilder fpdu(writer_, sink, terminate_ulpdu_bytes_);
  if (!fpdu.has_room()) {
    return Emitted::no_room;
  }
  copy_bytes(fpdu.ulpdu(), ByteView(terminate_ulpdu_).first(terminate_ulpdu_bytes_));
  fpdu.commit();
  terminate_ulpdu_bytes_ = 0;
  return Emitted::sent;
}

/// "Ready to receive", in the way that start frames settled (RFC 6581, 4).
StreamQp::Emitted StreamQp::emit_rtr(StreamSink& sink) {
  const RtrType type = *connection_.agreement.rtr;
  const std::size_t bytes = type == RtrType::zero_length_fpdu ? 0
                            : type == RtrType::write
                                ? tagged_header_bytes
                                : untagged_header_bytes + sizeof(ReadRequestHeader);
  FpduBuilder fpdu(writer_, sink, bytes);
  if (!fpdu.has_room()) {
    return Emitted::no_room;
  }
  if (type == RtrType::write) {
    write_struct(fpdu.ulpdu(), tagged_header(RdmapOpcode::write, true, Rkey{}, Va{}));
  } else if (type == RtrType::read) {
    write_struct(fpdu.ulpdu(), untagged_header(RdmapOpcode::read_request, true, request_msn_++, 0));
    write_struct(fpdu.ulpdu().subspan(untagged_header_bytes), ReadRequestHeader());
    rtr_read_in_flight_ = true;
  }
  fpdu.commit();
  rtr_is_due_ = false;
  return Emitted::sent;
}

StreamQp::Emitted StreamQp::emit_request(StreamEnv& env, StreamSink& sink) {
  const SendWqe& wqe = send_queue_.at(cursor_);
  if (immediate_is_due_) {
    return emit_immediate(env, sink, wqe);
  }
  if (wqe.is_atomic() && wqe.length != atomic_bytes) {
    fail_request(env, WcStatus::loc_len_err);
    return Emitted::failed;
  }
  // All of it is checked before any of it is sent.
  const Access needed = wqe.wants_data() ? Access::local_write : Access::none;
  if (sent_bytes_ == 0 &&
      !sges_permit(env.memory, connection_.pd, send_queue_.sges(cursor_), needed)) {
    fail_request(env, WcStatus::loc_prot_err);
    return Emitted::failed;
  }
  if (wqe.is_atomic()) {
    return emit_atomic_request(env, sink, wqe);
  }
  return wqe.is_read() ? emit_read_request(env, sink, wqe) : emit_data(env, sink, wqe);
}

/// Binds or invalidates a window, in the order of the queue: what was sent before went under the
/// old STag.
StreamQp::Emitted StreamQp::execute_local(StreamEnv& env, const SendWqe& wqe) {
  const bool is_bind = wqe.opcode == WrOpcode::bind_mw;
  const auto done = is_bind ? env.memory.bind(memory_user(), wqe.binding)
                            : env.memory.invalidate(memory_user(), wqe.invalidate_rkey);
  if (!done) {
    fail_request(env, is_bind ? WcStatus::mw_bind_err : WcStatus::loc_qp_op_err);
    return Emitted::failed;
  }
  end_request(env);
  return Emitted::done_here;
}

/// One segment of a SEND or WRITE.
StreamQp::Emitted StreamQp::emit_data(StreamEnv& env, StreamSink& sink, const SendWqe& wqe) {
  const RdmapInfo& info = rdmap_info(opcode_of(wqe));
  const std::size_t header_bytes = info.header_bytes();
  const std::size_t bytes =
      std::min<std::size_t>(wqe.length - sent_bytes_, payload_bytes_max(header_bytes));
  const bool is_last = sent_bytes_ + bytes == wqe.length;
  FpduBuilder fpdu(writer_, sink, header_bytes + bytes);
  if (!fpdu.has_room()) {
    return Emitted::no_room;
  }
  if (info.is_tagged()) {
    write_struct(fpdu.ulpdu(),
                 tagged_header(info.opcode, is_last, wqe.rkey, wqe.remote_addr + sent_bytes_));
  } else {
    UntaggedHeader header = untagged_header(info.opcode, is_last, send_msn_, sent_bytes_);
    if (info.invalidates) {
      header.invalidate_stag = to_value(wqe.invalidate_rkey);
    }
    write_struct(fpdu.ulpdu(), header);
  }
  const MutableBytes payload = fpdu.ulpdu().subspan(header_bytes);
  if (wqe.inline_data) {
    copy_bytes(payload, send_queue_.inline_bytes(cursor_).subspan(sent_bytes_, bytes));
  } else if (!gather(env.memory, connection_.pd, send_queue_.sges(cursor_), sent_bytes_, payload)) {
    fail_request(env, WcStatus::loc_prot_err);
    return Emitted::failed;
  }
  fpdu.commit();
  sent_bytes_ += static_cast<std::uint32_t>(bytes);
  if (is_last) {
    send_msn_ += info.is_tagged() ? 0 : 1;
    immediate_is_due_ = wqe.opcode == WrOpcode::rdma_write_with_imm;
    if (!immediate_is_due_) {
      end_request(env);
    }
  }
  return Emitted::sent;
}

StreamQp::Emitted StreamQp::emit_read_request(StreamEnv& env, StreamSink& sink,
                                              const SendWqe& wqe) {
  FpduBuilder fpdu(writer_, sink, untagged_header_bytes + sizeof(ReadRequestHeader));
  if (!fpdu.has_room()) {
    return Emitted::no_room;
  }
  const ReadSink target = read_sink(send_queue_.sges(cursor_));
  ReadRequestHeader request;
  request.sink_stag = target.stag;
  request.sink_offset = target.offset;
  request.size_bytes = wqe.length;
  request.source_stag = to_value(wqe.rkey);
  request.source_offset = to_value(wqe.remote_addr);
  write_struct(fpdu.ulpdu(), untagged_header(RdmapOpcode::read_request, true, request_msn_++, 0));
  write_struct(fpdu.ulpdu().subspan(untagged_header_bytes), request);
  fpdu.commit();
  note_in_flight();
  end_request(env);
  return Emitted::sent;
}

/// The request at the cursor will be answered.
void StreamQp::note_in_flight() {
  if (in_flight_++ == 0) {
    unanswered_ = cursor_;
  }
}

/// The first piece of memory gives the name; what follows in other pieces is counted on from it.
/// Only we read it again, in on_read_response().
StreamQp::ReadSink StreamQp::read_sink(std::span<const Sge> sges) {
  return sges.empty()
             ? ReadSink{}
             : ReadSink{.stag = to_value(sges.front().lkey), .offset = to_value(sges.front().addr)};
}

/// The request at the cursor was sent. Those that wait for no answer are done with that.
void StreamQp::end_request(StreamEnv& env) {
  ++cursor_;
  sent_bytes_ = 0;
  if (in_flight_ == 0) {
    unanswered_ = cursor_;
  }
  complete_requests(env);
}

/// One segment of the answer to the oldest READ or atomic of the peer.
StreamQp::Emitted StreamQp::emit_answer(StreamEnv& env, StreamSink& sink) {
  Answer& answer = answers_[answers_first_];
  if (auto* const read = std::get_if<ReadAnswer>(&answer)) {
    return emit_read_response(env, sink, *read);
  }
  return emit_atomic_response(env, sink, std::get<AtomicAnswer>(answer));
}

StreamQp::Emitted StreamQp::emit_read_response(StreamEnv& env, StreamSink& sink,
                                               ReadAnswer& response) {
  const std::size_t bytes = std::min<std::size_t>(response.size_bytes - response.sent_bytes,
                                                  payload_bytes_max(tagged_header_bytes));
  const bool is_last = response.sent_bytes + bytes == response.size_bytes;
  FpduBuilder fpdu(writer_, sink, tagged_header_bytes + bytes);
  if (!fpdu.has_room()) {
    return Emitted::no_room;
  }
  write_struct(fpdu.ulpdu(), tagged_header(RdmapOpcode::read_response, is_last, response.sink_stag,
                                           response.sink_offset + response.sent_bytes));
  if (bytes > 0) {
    // Looked up anew: the registration may have gone since the request came.
    const auto memory =
        env.memory.remote(memory_user(), response.source_stag,
                          response.source_offset + response.sent_bytes, bytes, Access::remote_read);
    if (!memory) {
      env.counters.add(Counter::resp_remote_access_errors);
      terminate(env, TerminateReason::rdmap_stag, {});
      return Emitted::failed;
    }
    copy_bytes(fpdu.ulpdu().subspan(tagged_header_bytes), {*memory, bytes});
  }
  fpdu.commit();
  response.sent_bytes += static_cast<std::uint32_t>(bytes);
  if (is_last) {
    end_answer();
  }
  return Emitted::sent;
}

/// The oldest READ or atomic of the peer was answered.
void StreamQp::end_answer() {
  answers_first_ = (answers_first_ + 1) % limits_.ird_max;
  --answers_count_;
}

/// Payload of a segment: as much as fits a TCP segment together with all that is around it.
std::size_t StreamQp::payload_bytes_max(std::size_t header_bytes) const {
  const std::size_t ulpdu_bytes = mulpdu_bytes(writer_.format(), connection_.segment_bytes);
  return std::max<std::size_t>(ulpdu_bytes, ulpdu_bytes_min) - header_bytes;
}

}  // namespace verbena::iwarp
