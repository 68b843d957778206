#include "proto/ib_bth/data_packet.h"

#include "proto/sge_copy.h"

namespace verbena::ib {

namespace {

bool is_send(WrOpcode opcode) {
  return opcode == WrOpcode::send || opcode == WrOpcode::send_with_imm ||
         opcode == WrOpcode::send_with_inv;
}

Opcode rc_opcode(WrOpcode opcode, bool first, bool last) {
  const bool send = is_send(opcode);
  if (!last) {
    if (first) {
      return send ? Opcode::rc_send_first : Opcode::rc_write_first;
    }
    return send ? Opcode::rc_send_middle : Opcode::rc_write_middle;
  }
  switch (opcode) {
    case WrOpcode::send_with_imm:
      return first ? Opcode::rc_send_only_imm : Opcode::rc_send_last_imm;
    case WrOpcode::send_with_inv:
      return first ? Opcode::rc_send_only_inv : Opcode::rc_send_last_inv;
    case WrOpcode::rdma_write_with_imm:
      return first ? Opcode::rc_write_only_imm : Opcode::rc_write_last_imm;
    case WrOpcode::send:
      return first ? Opcode::rc_send_only : Opcode::rc_send_last;
    case WrOpcode::atomic_write:
      return Opcode::rc_atomic_write;
    default:
      return first ? Opcode::rc_write_only : Opcode::rc_write_last;
  }
}

}  // namespace

DataSlice slice_of(std::uint64_t message_bytes, std::uint32_t packet, std::uint32_t mtu_bytes) {
  const std::uint64_t offset = std::uint64_t{packet} * mtu_bytes;
  const std::uint64_t left = message_bytes - offset;
  return {.offset = offset,
          .bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left, mtu_bytes)),
          .first = packet == 0,
          .last = left <= mtu_bytes};
}

Opcode data_opcode(Service service, WrOpcode opcode, const DataSlice& slice) {
  return with_service(service, rc_opcode(opcode, slice.first, slice.last));
}

void add_data_fields(PacketFields& fields, const SendWqe& wqe, const DataSlice& slice) {
  // A plain WRITE makes no completion that could be solicited (IBTA vol 1, 9.2.3).
  fields.solicited = slice.last && wqe.solicited && wqe.opcode != WrOpcode::rdma_write;
  fields.reth = Reth(wqe.remote_addr, wqe.rkey, wqe.length);
  fields.imm = ImmDt(to_value(wqe.imm));
  fields.ieth = Ieth(wqe.invalidate_rkey);
  fields.xrceth = XrcEth(to_value(wqe.remote_srqn));
}

bool write_data_packet(MemoryAccess& memory, PdId pd, const SendQueue& queue, std::uint64_t index,
                       const DataSlice& slice, const PacketFields& fields, MutableBytes packet) {
  const std::size_t header_bytes = emit_headers(packet, fields, slice.bytes);
  const MutableBytes payload = packet.subspan(header_bytes, slice.bytes);
  if (queue.at(index).inline_data) {
    copy_bytes(payload, queue.inline_bytes(index).subspan(slice.offset, slice.bytes));
  } else if (!gather(memory, pd, queue.sges(index), slice.offset, payload)) {
    return false;
  }
  emit_pad(packet.subspan(header_bytes + slice.bytes), slice.bytes);
  return true;
}

}  // namespace verbena::ib
