// RFC 7306 on a stream queue pair: immediate data behind WRITEs, and atomics, which take their turn
// among the READs. A peer sends them only if it knows that we have them: without Limits::extensions
// they are operations that nobody expects.
#include <atomic>
#include <utility>

#include "proto/iwarp/fpdu_builder.h"
#include "proto/iwarp/stream_faults.h"
#include "proto/iwarp/stream_qp.h"
#include "proto/sge_copy.h"

namespace verbena::iwarp {
namespace {

constexpr std::uint64_t all_bits = ~std::uint64_t{0};

std::uint32_t operation_of(const AtomicRequestHeader& request) {
  return request.operation.value() & atomic_opcode_mask;
}

bool is_known(std::uint32_t operation) {
  return operation == static_cast<std::uint32_t>(AtomicOpcode::fetch_add) ||
         operation == static_cast<std::uint32_t>(AtomicOpcode::compare_swap);
}

/// The value that a FetchAdd leaves: a mask bit is the upper end of a field, whose carry is dropped
/// (RFC 7306, 5.1.1). No bits: one field of 64.
std::uint64_t sum_of(std::uint64_t original, std::uint64_t addend, std::uint64_t ends) {
  return ((original & ~ends) + (addend & ~ends)) ^ ((original ^ addend) & ends);
}

/// The value that an atomic leaves behind where `original` was.
std::uint64_t outcome_of(const AtomicRequestHeader& request, std::uint64_t original) {
  const std::uint64_t data = request.add_or_swap_data.value();
  const std::uint64_t mask = request.add_or_swap_mask.value();
  if (operation_of(request) == static_cast<std::uint32_t>(AtomicOpcode::fetch_add)) {
    return sum_of(original, data, mask);
  }
  const std::uint64_t compared = request.compare_mask.value();
  const bool is_equal = ((original ^ request.compare_data.value()) & compared) == 0;
  return is_equal ? (original & ~mask) | (data & mask) : original;
}

/// On memory that the application's own atomics may touch at the same time. Returns the value
/// before.
std::uint64_t apply_atomic(std::byte* host, const AtomicRequestHeader& request) {
  const std::atomic_ref target(*reinterpret_cast<std::uint64_t*>(host));
  std::uint64_t original = target.load();
  while (!target.compare_exchange_weak(original, outcome_of(request, original))) {
  }
  return original;
}

}  // namespace

StreamQp::Checked StreamQp::execute_extension(StreamEnv& env, const SegmentView& segment) {
  if (!limits_.extensions) {
    return TerminateReason::rdmap_opcode;
  }
  switch (segment.opcode()) {
    case RdmapOpcode::atomic_request:
      return on_atomic_request(env, segment);
    case RdmapOpcode::atomic_response:
      return on_atomic_response(env, segment);
    default:
      return on_immediate(env, segment);
  }
}

/// An Immediate message takes a receive and leaves its memory alone. How much was written is what
/// the verbs want to be told; the message doesn't say, but the WRITE is what came just before it.
StreamQp::Checked StreamQp::on_immediate(StreamEnv& env, const SegmentView& segment) {
  const auto header = segment.untagged();
  if (header.msn.value() != expected_send_msn_) {
    return TerminateReason::ddp_untagged_msn_range;
  }
  // Between the segments of a SEND nothing else belongs into their queue.
  if (inbound_send_) {
    return TerminateReason::rdmap_opcode;
  }
  if (receives_.empty()) {
    env.counters.add(Counter::out_of_buffer);
    return TerminateReason::ddp_untagged_no_buffer;
  }
  if (header.message_offset.value() != 0) {
    return TerminateReason::ddp_untagged_message_offset;
  }
  if (segment.payload().size() > immediate_data_bytes || !segment.is_last()) {
    return TerminateReason::ddp_untagged_too_long;
  }
  if (segment.payload().size() < immediate_data_bytes) {
    return TerminateReason::rdmap_operation_unspecified;
  }
  receives_.hold();
  Completion completion;
  completion.with_imm = true;
  completion.imm_or_rkey = read_struct<ImmediateData>(segment.payload()).value.value();
  completion.byte_len = write_has_ended_ ? std::exchange(written_bytes_, 0) : 0;
  ++expected_send_msn_;
  env.counters.add(Counter::rdma_recvs);
  complete_receive(env, WcStatus::success, completion, segment.info().is_solicited);
  return std::nullopt;
}

/// All of it is checked before it waits for its turn, as of a READ.
StreamQp::Checked StreamQp::on_atomic_request(StreamEnv& env, const SegmentView& segment) {
  if (const Checked refused = check_queued_request(segment)) {
    return refused;
  }
  const auto request = segment.rdmap<AtomicRequestHeader>();
  if (!is_known(operation_of(request))) {
    return TerminateReason::rdmap_opcode;
  }
  const std::uint64_t offset = request.remote_offset.value();
  if (wraps(offset, atomic_bytes)) {
    return TerminateReason::rdmap_offset_wrap;
  }
  // The registry has no code of its own for it.
  if (offset % atomic_bytes != 0) {
    return TerminateReason::rdmap_operation_unspecified;
  }
  if (!allows(connection_.access, Access::remote_atomic)) {
    env.counters.add(Counter::resp_remote_access_errors);
    return TerminateReason::rdmap_access;
  }
  const auto permitted = env.memory.check_remote(memory_user(), Rkey{request.remote_stag.value()},
                                                 Va{offset}, atomic_bytes, Access::remote_atomic);
  if (!permitted) {
    env.counters.add(Counter::resp_remote_access_errors);
    return source_reason(permitted.error());
  }
  AtomicAnswer atomic{.request = request, .is_done = false, .original = 0};
  // READs read when their answers are sent, and one that came first reads first. If there is none,
  // nothing that follows the atomic overtakes it.
  if (!has_read_to_answer()) {
    if (const auto done = carry_out(env, atomic); !done) {
      return source_reason(done.error());
    }
  }
  ++expected_request_msn_;
  answers_[(answers_first_ + answers_count_++) % limits_.ird_max] = atomic;
  return std::nullopt;
}

bool StreamQp::has_read_to_answer() const {
  for (std::uint32_t i = 0; i < answers_count_; ++i) {
    if (std::holds_alternative<ReadAnswer>(answers_[(answers_first_ + i) % limits_.ird_max])) {
      return true;
    }
  }
  return false;
}

Result<void, AccessFault> StreamQp::carry_out(StreamEnv& env, AtomicAnswer& atomic) {
  const AtomicRequestHeader& request = atomic.request;
  auto host =
      env.memory.remote(memory_user(), Rkey{request.remote_stag.value()},
                        Va{request.remote_offset.value()}, atomic_bytes, Access::remote_atomic);
  // The offset was aligned, but a registration may name its memory by another one.
  if (host && reinterpret_cast<std::uintptr_t>(*host) % atomic_bytes != 0) {
    host = std::unexpected(AccessFault::not_permitted);
  }
  if (!host) {
    env.counters.add(Counter::resp_remote_access_errors);
    return std::unexpected(host.error());
  }
  atomic.original = apply_atomic(*host, request);
  atomic.is_done = true;
  env.counters.add(Counter::rx_atomic_requests);
  return {};
}

/// Answers come in the order of the requests, so only one can be meant; the identifier says it
/// again.
StreamQp::Checked StreamQp::on_atomic_response(StreamEnv& env, const SegmentView& segment) {
  const auto header = segment.untagged();
  if (header.msn.value() != expected_atomic_response_msn_) {
    return TerminateReason::ddp_untagged_msn_range;
  }
  if (header.message_offset.value() != 0) {
    return TerminateReason::ddp_untagged_message_offset;
  }
  if (!segment.is_last() || !segment.payload().empty()) {
    return TerminateReason::ddp_untagged_too_long;
  }
  if (in_flight_ == 0 || !send_queue_.at(unanswered_).is_atomic()) {
    return TerminateReason::rdmap_opcode;
  }
  const auto response = segment.rdmap<AtomicResponseHeader>();
  if (response.request_identifier.value() != oldest_request_msn()) {
    return TerminateReason::rdmap_operation_unspecified;
  }
  const std::uint64_t original = response.original.value();
  if (!scatter(env.memory, connection_.pd, send_queue_.sges(unanswered_), 0, bytes_of(original))) {
    cursor_ = unanswered_;
    fail_request(env, WcStatus::loc_prot_err);
    return std::nullopt;
  }
  ++expected_atomic_response_msn_;
  end_answered(env);
  return std::nullopt;
}

/// What follows a WRITE with immediate data, whose payload was sent.
StreamQp::Emitted StreamQp::emit_immediate(StreamEnv& env, StreamSink& sink, const SendWqe& wqe) {
  FpduBuilder fpdu(writer_, sink, untagged_header_bytes + immediate_data_bytes);
  if (!fpdu.has_room()) {
    return Emitted::no_room;
  }
  const RdmapOpcode opcode =
      wqe.solicited ? RdmapOpcode::immediate_solicited : RdmapOpcode::immediate;
  write_struct(fpdu.ulpdu(), untagged_header(opcode, true, send_msn_++, 0));
  ImmediateData immediate;
  immediate.value = to_value(wqe.imm);
  write_struct(fpdu.ulpdu().subspan(untagged_header_bytes), immediate);
  fpdu.commit();
  immediate_is_due_ = false;
  end_request(env);
  return Emitted::sent;
}

/// The identifier is the request's number in its queue.
StreamQp::Emitted StreamQp::emit_atomic_request(StreamEnv& env, StreamSink& sink,
                                                const SendWqe& wqe) {
  FpduBuilder fpdu(writer_, sink, untagged_header_bytes + sizeof(AtomicRequestHeader));
  if (!fpdu.has_room()) {
    return Emitted::no_room;
  }
  const bool is_swap = wqe.opcode == WrOpcode::atomic_cmp_and_swp;
  AtomicRequestHeader request;
  request.operation =
      static_cast<std::uint32_t>(is_swap ? AtomicOpcode::compare_swap : AtomicOpcode::fetch_add);
  request.request_identifier = request_msn_;
  request.remote_stag = to_value(wqe.rkey);
  request.remote_offset = to_value(wqe.remote_addr);
  request.add_or_swap_data = is_swap ? wqe.swap : wqe.compare_add;
  request.add_or_swap_mask = is_swap ? all_bits : 0;
  request.compare_data = is_swap ? wqe.compare_add : 0;
  request.compare_mask = is_swap ? all_bits : 0;
  write_struct(fpdu.ulpdu(), untagged_header(RdmapOpcode::atomic_request, true, request_msn_++, 0));
  write_struct(fpdu.ulpdu().subspan(untagged_header_bytes), request);
  fpdu.commit();
  note_in_flight();
  end_request(env);
  return Emitted::sent;
}

StreamQp::Emitted StreamQp::emit_atomic_response(StreamEnv& env, StreamSink& sink,
                                                 AtomicAnswer& atomic) {
  FpduBuilder fpdu(writer_, sink, untagged_header_bytes + sizeof(AtomicResponseHeader));
  if (!fpdu.has_room()) {
    return Emitted::no_room;
  }
  if (!atomic.is_done) {
    // The registration may have gone since the request came.
    if (const auto done = carry_out(env, atomic); !done) {
      terminate(env, source_reason(done.error()), {});
      return Emitted::failed;
    }
  }
  AtomicResponseHeader response;
  response.request_identifier = atomic.request.request_identifier.value();
  response.original = atomic.original;
  write_struct(fpdu.ulpdu(),
               untagged_header(RdmapOpcode::atomic_response, true, atomic_response_msn_++, 0));
  write_struct(fpdu.ulpdu().subspan(untagged_header_bytes), response);
  fpdu.commit();
  end_answer();
  return Emitted::sent;
}

}  // namespace verbena::iwarp
