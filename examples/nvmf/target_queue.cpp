#include "examples/nvmf/target_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace nvmf {
namespace {

// What a completion is of; the slot is in the lower half of wr_id.
enum class Work : std::uint32_t { receive = 1, read, respond, write };

std::uint64_t work_id(Work work, std::size_t index) {
  return std::uint64_t{static_cast<std::uint32_t>(work)} << 32 | index;
}

Work work_of(std::uint64_t id) { return static_cast<Work>(id >> 32); }
std::size_t index_of(std::uint64_t id) { return id & 0xffffffff; }

// A command takes a READ and a SEND, or a WRITE and a SEND.
constexpr std::size_t requests_per_command = 2;
// The peer may have a completion, and send its next command, before its acknowledgement gets here.
constexpr std::size_t rounds_unacknowledged = 2;

// In iWARP a peer's READ Response names the memory where it goes (RFC 5040, 4.4), so that memory
// must let a peer write. Hosts may write all of the namespace anyway, by command.
int storage_access(const ibv_context* context) {
  return IBV_ACCESS_LOCAL_WRITE | (is_iwarp(context) ? IBV_ACCESS_REMOTE_WRITE : 0);
}

ibv_device_attr attributes_of(ibv_context* context) {
  ibv_device_attr attributes{};
  expect_zero(ibv_query_device(context, &attributes), "asking the device for its limits");
  return attributes;
}

}  // namespace

TargetDevice::TargetDevice(ibv_context* context, Storage& storage)
    : attributes_(attributes_of(context)),
      pd_(expect_some(ibv_alloc_pd(context), "allocating a protection domain")),
      channel_(expect_some(ibv_create_comp_channel(context), "creating a completion channel")),
      storage_(pd_.get(), storage.memory(), storage_access(context)) {}

TargetQueue::TargetQueue(TargetDevice& device, rdma_cm_id* id, const CmRequest& request,
                         Subsystem& subsystem, Portal portal)
    : device_(device),
      entries_(request.host_send_size + std::size_t{1}),
      // Only commands of I/O queues have data behind them.
      capsule_bytes_(command_bytes +
                     (request.queue_id == 0 ? 0 : subsystem.settings().in_capsule_bytes)),
      session_(subsystem, request.queue_id, static_cast<std::uint16_t>(entries_),
               std::move(portal)),
      capsules_(device.pd(), entries_, capsule_bytes_, IBV_ACCESS_LOCAL_WRITE),
      pages_(device.pd(), entries_, page_bytes, storage_access(id->verbs)),
      slots_(entries_),
      room_(rounds_unacknowledged * entries_) {
  const auto requests = static_cast<std::uint32_t>(requests_per_command * room_);
  cq_.reset(expect_some(
      ibv_create_cq(id->verbs, static_cast<int>(requests + entries_), this, device.channel(), 0),
      "creating a completion queue"));
  ibv_qp_init_attr wishes{};
  wishes.send_cq = wishes.recv_cq = cq_.get();
  wishes.qp_type = IBV_QPT_RC;
  wishes.cap = {.max_send_wr = requests,
                .max_recv_wr = static_cast<std::uint32_t>(entries_),
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = completion_bytes};
  expect_zero(rdma_create_qp(id, device.pd(), &wishes), "creating a queue pair");
  try {
    expect_zero(ibv_req_notify_cq(cq_.get(), 0), "asking for events");
    id_.reset(id);
    for (std::size_t index = 0; index < entries_; ++index) {
      post_receive(index);
    }
  } catch (const Failure&) {
    rdma_destroy_qp(id);
    (void)id_.release();  // It stays the caller's.
    throw;
  }
}

TargetQueue::~TargetQueue() {
  if (id_ != nullptr) {
    (void)rdma_disconnect(id_.get());
    rdma_destroy_qp(id_.get());
  }
}

void TargetQueue::accept(const rdma_conn_param& offered) {
  CmReply reply{.controller_receive_size = static_cast<std::uint16_t>(entries_)};
  const ibv_device_attr& limits = device_.attributes();
  rdma_conn_param param{};
  param.private_data = &reply;
  param.private_data_len = sizeof reply;
  param.responder_resources =
      std::min(offered.responder_resources, static_cast<std::uint8_t>(limits.max_qp_rd_atom));
  param.initiator_depth =
      std::min(offered.initiator_depth, static_cast<std::uint8_t>(limits.max_qp_init_rd_atom));
  param.flow_control = 1;
  param.rnr_retry_count = 7;  // for ever
  expect_zero(rdma_accept(id_.get(), &param), "accepting");
}

void TargetQueue::on_completions() {
  expect_zero(ibv_req_notify_cq(cq_.get(), 0), "asking for events");
  ibv_wc completions[16];
  int count = 0;
  while ((count = ibv_poll_cq(cq_.get(), std::size(completions), completions)) > 0) {
    std::for_each_n(completions, count, [this](const ibv_wc& wc) { on_completion(wc); });
  }
  if (count < 0) {
    throw Failure("polling the completion queue failed");
  }
}

void TargetQueue::on_completion(const ibv_wc& wc) {
  if (wc.status == IBV_WC_WR_FLUSH_ERR) {
    throw Failure("the connection is closed");
  }
  if (wc.status != IBV_WC_SUCCESS) {
    throw Failure(ibv_wc_status_str(wc.status));
  }
  const std::size_t index = index_of(wc.wr_id);
  switch (work_of(wc.wr_id)) {
    case Work::receive:
      slots_[index].received_bytes = wc.byte_len;
      if (waiting_.empty() && room_ > 0) {
        begin(index);
      } else {
        waiting_.push_back(index);
      }
      break;
    case Work::read:
      respond(index, session_.finish(slots_[index].command, slots_[index].plan.memory));
      break;
    case Work::respond:
      ++room_;
      while (room_ > 0 && !waiting_.empty()) {
        const std::size_t next = waiting_.front();
        waiting_.pop_front();
        begin(next);
      }
      break;
    case Work::write:  // Not signaled.
      break;
  }
}

void TargetQueue::begin(std::size_t index) {
  Slot& slot = slots_[index];
  if (slot.received_bytes < command_bytes) {
    throw Failure("a capsule of " + std::to_string(slot.received_bytes) + " bytes");
  }
  std::memcpy(&slot.command, capsules_[index].data(), command_bytes);
  slot.sgl = parse_sgl(slot.command.sgl);
  slot.plan = session_.begin(slot.command, pages_[index]);
  if (slot.plan.is_held) {
    return;
  }
  --room_;
  if (slot.plan.outcome.status == Status::success && slot.plan.data != Plan::Data::none) {
    move_data(index);
  } else {
    respond(index, slot.plan.outcome);
  }
}

void TargetQueue::move_data(std::size_t index) {
  const Slot& slot = slots_[index];
  const bool is_to_host = slot.plan.data == Plan::Data::to_host;
  const bool is_in_capsule = slot.sgl.kind == Sgl::Kind::in_capsule;
  if (slot.sgl.kind == Sgl::Kind::unknown || (is_in_capsule && is_to_host)) {
    respond(index, {.status = Status::sgl_descriptor_type_invalid});
  } else if (slot.sgl.length != slot.plan.memory.size()) {
    respond(index, {.status = Status::data_sgl_length_invalid});
  } else if (is_in_capsule) {
    take_from_capsule(index);
  } else if (is_to_host) {
    respond(index, slot.plan.outcome, true);
  } else {
    post_read(index);
  }
}

void TargetQueue::take_from_capsule(std::size_t index) {
  const Slot& slot = slots_[index];
  const std::size_t there = slot.received_bytes - command_bytes;
  if (slot.sgl.address > there || slot.sgl.length > there - slot.sgl.address) {
    respond(index, {.status = Status::sgl_offset_invalid});
    return;
  }
  const auto data = capsules_[index].subspan(command_bytes + slot.sgl.address, slot.sgl.length);
  std::ranges::copy(data, slot.plan.memory.begin());
  respond(index, session_.finish(slot.command, slot.plan.memory));
}

void TargetQueue::post_receive(std::size_t index) {
  ibv_sge sge = capsules_.region().sge(capsules_[index]);
  ibv_recv_wr request{};
  request.wr_id = work_id(Work::receive, index);
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  if (const int error = ibv_post_recv(id_->qp, &request, &refused)) {
    fail("posting a receive", error);
  }
}

ibv_send_wr TargetQueue::data_request(std::size_t index, ibv_wr_opcode opcode, ibv_sge& sge) {
  const Slot& slot = slots_[index];
  const bool is_page = slot.plan.memory.data() == pages_[index].data();
  sge = (is_page ? pages_.region() : device_.storage()).sge(slot.plan.memory);
  ibv_send_wr request{};
  request.opcode = opcode;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = slot.sgl.address;
  request.wr.rdma.rkey = slot.sgl.key;
  return request;
}

void TargetQueue::post_read(std::size_t index) {
  ibv_sge sge{};
  ibv_send_wr request = data_request(index, IBV_WR_RDMA_READ, sge);
  request.wr_id = work_id(Work::read, index);
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(id_->qp, &request, &refused)) {
    fail("posting a RDMA READ", error);
  }
}

void TargetQueue::respond(std::size_t index, const Outcome& outcome, bool has_data) {
  const Slot& slot = slots_[index];
  Completion completion = session_.complete(slot.command, outcome);
  ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(&completion),
              .length = completion_bytes,
              .lkey = 0};  // inline
  ibv_send_wr send{};
  send.wr_id = work_id(Work::respond, index);
  send.opcode = slot.sgl.invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
  send.invalidate_rkey = slot.sgl.invalidate ? slot.sgl.key : 0;
  send.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  send.sg_list = &sge;
  send.num_sge = 1;

  ibv_sge data{};
  ibv_send_wr write{};
  if (has_data) {
    write = data_request(index, IBV_WR_RDMA_WRITE, data);
    write.wr_id = work_id(Work::write, index);
    write.next = &send;
  }
  post_receive(index);
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(id_->qp, has_data ? &write : &send, &refused)) {
    fail("posting a completion", error);
  }
}

}  // namespace nvmf
