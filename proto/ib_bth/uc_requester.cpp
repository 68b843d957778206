#include "proto/ib_bth/uc_requester.h"

#include "proto/ib_bth/data_packet.h"
#include "proto/sge_copy.h"

namespace verbena::ib {

void UcRequester::activate(const Connection& connection, Psn first_psn) {
  connection_ = connection;
  UnackedRequester::activate(first_psn);
}

/// IBTA vol 1, 9.8.2, table 38: neither READ nor atomics, nothing that invalidates.
Result<void, PostError> UcRequester::post(const SendWr& wr) {
  switch (wr.opcode) {
    case WrOpcode::send:
    case WrOpcode::send_with_imm:
    case WrOpcode::rdma_write:
    case WrOpcode::rdma_write_with_imm:
      return queue_.push(wr);
    default:
      return std::unexpected(PostError::opcode_unsupported);
  }
}

/// What is wrong with the oldest request; success if nothing is.
WcStatus UcRequester::check(TransportEnv& env) const {
  const bool permitted =
      sges_permit(env.memory, connection_.pd, queue_.sges(queue_.head()), Access::none);
  return permitted ? WcStatus::success : WcStatus::loc_prot_err;
}

UcRequester::Transmitted UcRequester::poll_transmit(TransportEnv& env, PacketSink& sink,
                                                    std::uint32_t& packets_max) {
  return transmit(env, packets_max, [&] { return check(env); }, [&] { return emit(env, sink); });
}

UcRequester::Emitted UcRequester::emit(TransportEnv& env, PacketSink& sink) {
  const SendWqe& wqe = queue_.at(queue_.head());
  const DataSlice slice = slice_of(wqe.length, next_packet_, connection_.mtu_bytes);
  PacketFields fields =
      connection_.fields_of(data_opcode(Service::uc, wqe.opcode, slice), next_psn_);
  add_data_fields(fields, wqe, slice);
  const MutableBytes packet = sink.reserve(transport_size(fields.opcode, slice.bytes));
  if (packet.empty()) {
    return Emitted::no_room;
  }
  if (!write_data_packet(env.memory, connection_.pd, queue_, queue_.head(), slice, fields,
                         packet)) {
    return Emitted::no_access;
  }
  sink.commit({});
  packet_sent(env, slice.last);
  return Emitted::sent;
}

}  // namespace verbena::ib
