#include "proto/ib_bth/ud_requester.h"

#include <utility>

#include "proto/ib_bth/data_packet.h"
#include "proto/sge_copy.h"

namespace verbena::ib {

namespace {

/// A request with this bit in its Q_Key sends the one of its queue pair, so that a consumer without
/// privilege can't make up controlled Q_Keys (IBTA vol 1, 10.2.5).
constexpr std::uint32_t qkey_of_queue_pair = 1U << 31;

}  // namespace

UdRequester::UdRequester(Qpn qpn, const SendQueueLimits& limits, bool signal_all,
                         CompletionSink& completions)
    : UnackedRequester(qpn, limits, signal_all, completions),
      destinations_(std::make_unique<Destination[]>(queue_.limits().wr_max)) {}

void UdRequester::activate(const UdRequesterConfig& config) {
  config_ = config;
  UnackedRequester::activate(config.first_psn);
}

Result<void, PostError> UdRequester::post(const SendWr& wr) {
  if (wr.opcode != WrOpcode::send && wr.opcode != WrOpcode::send_with_imm) {
    return std::unexpected(PostError::opcode_unsupported);
  }
  if (wr.address == nullptr) {
    return std::unexpected(PostError::bad_address);
  }
  const std::uint64_t index = queue_.tail();
  auto posted = queue_.push(wr);
  if (posted) {
    destination_of(index) = {.address = wr.address, .qpn = wr.remote_qpn, .qkey = wr.remote_qkey};
  }
  return posted;
}

/// What is wrong with the oldest request; success if nothing is.
WcStatus UdRequester::check(TransportEnv& env) const {
  // IBTA vol 1, 9.8.3.1: a datagram is one packet.
  if (queue_.at(queue_.head()).length > config_.mtu_bytes) {
    return WcStatus::loc_len_err;
  }
  const bool permitted =
      sges_permit(env.memory, config_.pd, queue_.sges(queue_.head()), Access::none);
  return permitted ? WcStatus::success : WcStatus::loc_prot_err;
}

UdRequester::Transmitted UdRequester::poll_transmit(TransportEnv& env, DatagramSink& sink,
                                                    std::uint32_t& packets_max) {
  return transmit(env, packets_max, [&] { return check(env); }, [&] { return emit(env, sink); });
}

UdRequester::Emitted UdRequester::emit(TransportEnv& env, DatagramSink& sink) {
  const SendWqe& wqe = queue_.at(queue_.head());
  Destination& destination = destination_of(queue_.head());
  const DataSlice slice = slice_of(wqe.length, 0, config_.mtu_bytes);
  PacketFields fields;
  fields.opcode = data_opcode(Service::ud, wqe.opcode, slice);
  add_data_fields(fields, wqe, slice);
  const bool own_qkey = (to_value(destination.qkey) & qkey_of_queue_pair) != 0;
  fields.deth = Deth(own_qkey ? config_.qkey : destination.qkey, qpn_);
  fields.pkey = config_.pkey;
  fields.dest_qpn = destination.qpn;
  fields.psn = next_psn_;
  const MutableBytes packet = sink.reserve(*destination.address, destination.qpn,
                                           transport_size(fields.opcode, slice.bytes));
  if (packet.empty()) {
    return Emitted::no_room;
  }
  if (!write_data_packet(env.memory, config_.pd, queue_, queue_.head(), slice, fields, packet)) {
    return Emitted::no_access;
  }
  sink.commit({});
  destination.address.reset();
  packet_sent(env, slice.last);
  return Emitted::sent;
}

}  // namespace verbena::ib
