// The work requests of a stream: writes, and the messages that tell of them.

#include <boost/endian/conversion.hpp>

#include "verbs/rdma_cm/rsocket/memory.h"
#include "verbs/rdma_cm/rsocket/stream.h"
#include "verbs/rdma_cm/rsocket/work_ids.h"

namespace verbena::rsocket {

Errno Stream::post_receive(std::uint32_t place) {
  ibv_sge sge{.addr = address_of(&arrived_[place]),
              .length = sizeof(std::uint32_t),
              .lkey = messages_mr_->lkey};
  ibv_recv_wr wr{};
  wr.wr_id = wr_receive | place;
  wr.sg_list = &sge;
  wr.num_sge = has_immediate_ ? 0 : 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(id_.qp, &wr, &bad);
}

void Stream::on_sent(const ibv_wc& wc) {
  if ((wc.wr_id & wr_control) != 0) {
    --controls_in_flight_;
  } else if ((wc.wr_id & wr_has_message_behind) == 0) {
    ++send_slots_;
    send_free_ += static_cast<std::uint32_t>(wc.wr_id);
  }
  if (wc.status != IBV_WC_SUCCESS && connected_) {
    fail(ECONNRESET);
  }
}

void Stream::post(ibv_send_wr& wr, std::uint64_t wr_id) {
  wr.wr_id = wr_id;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(id_.qp, &wr, &bad) != 0) {
    fail(ECONNRESET);
  }
}

void Stream::post_with_message(ibv_send_wr& write, const Message& message, std::uint64_t wr_id) {
  std::uint32_t value = encode(message);
  if (has_immediate_) {
    write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    write.imm_data = boost::endian::native_to_big(value);
    post(write, wr_id);
    return;
  }
  if (write.num_sge > 0) {
    write.opcode = IBV_WR_RDMA_WRITE;
    post(write, wr_has_message_behind);
  }
  ibv_sge sge{.addr = address_of(&value), .length = sizeof value, .lkey = 0};
  ibv_send_wr send{};
  send.sg_list = &sge;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_INLINE;
  post(send, wr_id);
}

void Stream::post_control(const Message& message, std::span<const std::byte> bytes,
                          std::uint64_t address, std::uint32_t key) {
  ibv_sge sge{.addr = address_of(bytes.data()),
              .length = static_cast<std::uint32_t>(bytes.size()),
              .lkey = 0};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = bytes.empty() ? 0 : 1;
  wr.send_flags = bytes.empty() ? 0U : unsigned{IBV_SEND_INLINE};
  wr.wr.rdma.remote_addr = address;
  wr.wr.rdma.rkey = key;
  ++controls_in_flight_;
  post_with_message(wr, message, wr_control);
}

}  // namespace verbena::rsocket
