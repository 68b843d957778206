#include "examples/nvmf/host_queue.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nvmf {
namespace {

constexpr int resolve_timeout_ms = 5000;
constexpr std::uint8_t depth_max = 16;  // of RDMA READs by the target

enum class Work : std::uint32_t { answer = 1, send, bind };

std::uint64_t work_id(Work work, std::size_t index) {
  return std::uint64_t{static_cast<std::uint32_t>(work)} << 32 | index;
}

}  // namespace

HostQueue::HostQueue(const QueueWishes& wishes) : wishes_(wishes), slots_(wishes.entries) {}

// From here on the destructor runs, whatever fails.
HostQueue::HostQueue(const Place& place, const QueueWishes& wishes) : HostQueue(wishes) {
  connect(place);
  create_queue_pair();
  for (std::size_t index = 0; index < entries(); ++index) {
    post_receive(index);
  }
  connect_queue_pair();
}

HostQueue::~HostQueue() {
  // What is missing was never there.
  if (id_ != nullptr && id_->qp != nullptr) {
    (void)rdma_disconnect(id_.get());
    windows_.clear();
    rdma_destroy_qp(id_.get());
  }
}

// The way there: which device, which path. Each call waits, as the identifier has no channel.
void HostQueue::connect(const Place& place) {
  sockaddr_storage to = parse_address(place.address, place.port);
  rdma_cm_id* id = nullptr;
  expect_zero(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
  id_.reset(id);
  const std::string where = place.address + " port " + std::to_string(place.port);
  expect_zero(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), resolve_timeout_ms),
              ("no RDMA device leads to " + where).c_str());
  expect_zero(rdma_resolve_route(id, resolve_timeout_ms), ("no route to " + where).c_str());
}

void HostQueue::create_queue_pair() {
  ibv_context* context = id_->verbs;
  ibv_device_attr limits{};
  expect_zero(ibv_query_device(context, &limits), "asking the device for its limits");
  const bool has_windows = (limits.device_cap_flags &
                            (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) != 0;
  if (wishes_.uses_windows && !has_windows) {
    throw Failure("this device has no memory windows of type 2");
  }
  pd_.reset(expect_some(ibv_alloc_pd(context), "allocating a protection domain"));
  channel_.reset(expect_some(ibv_create_comp_channel(context), "creating a completion channel"));
  // SEND, bind and answer of each command.
  cq_.reset(expect_some(
      ibv_create_cq(context, static_cast<int>(3 * entries()), nullptr, channel_.get(), 0),
      "creating a completion queue"));
  const int remote = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  capsules_ =
      std::make_unique<Pieces>(pd_.get(), entries(), command_bytes + wishes_.in_capsule_bytes, 0);
  answers_ =
      std::make_unique<Pieces>(pd_.get(), entries(), completion_bytes, IBV_ACCESS_LOCAL_WRITE);
  data_ = std::make_unique<Pieces>(
      pd_.get(), entries(), wishes_.data_bytes,
      IBV_ACCESS_LOCAL_WRITE | (wishes_.uses_windows ? IBV_ACCESS_MW_BIND : remote));
  ibv_qp_init_attr how{};
  how.send_cq = how.recv_cq = cq_.get();
  how.qp_type = IBV_QPT_RC;
  how.cap = {.max_send_wr = static_cast<std::uint32_t>(2 * entries()),
             .max_recv_wr = static_cast<std::uint32_t>(entries()),
             .max_send_sge = 1,
             .max_recv_sge = 1,
             .max_inline_data = 0};
  expect_zero(rdma_create_qp(id_.get(), pd_.get(), &how), "creating a queue pair");
  for (std::size_t tag = 0; wishes_.uses_windows && tag < entries(); ++tag) {
    windows_.emplace_back(
        expect_some(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2), "allocating a memory window"));
  }
}

void HostQueue::connect_queue_pair() {
  const CmRequest request{.queue_id = wishes_.queue_id,
                          .host_receive_size = wishes_.entries,
                          .host_send_size = static_cast<std::uint16_t>(wishes_.entries - 1),
                          .controller_id = wishes_.controller_id};
  rdma_conn_param param{};
  param.private_data = &request;
  param.private_data_len = sizeof request;
  param.responder_resources = depth_max;
  param.initiator_depth = 1;  // We send no READs; 0 isn't taken everywhere.
  param.flow_control = 1;
  param.retry_count = 7;
  param.rnr_retry_count = 7;  // for ever
  if (rdma_connect(id_.get(), &param) == 0) {
    return;
  }
  const int error = errno;
  const std::string what = "connecting queue " + std::to_string(wishes_.queue_id);
  const rdma_cm_event* event = id_->event;
  if (event != nullptr && event->event == RDMA_CM_EVENT_REJECTED &&
      event->param.conn.private_data_len >= sizeof(CmReject)) {
    CmReject why;
    std::memcpy(&why, event->param.conn.private_data, sizeof why);
    if (why.status != 0) {
      throw Failure(what + ": the target refuses: " +
                    std::string(nvmf::describe(static_cast<CmStatus>(why.status))));
    }
  }
  fail(what, error);
}

void HostQueue::post_receive(std::size_t index) {
  ibv_sge sge = answers_->region().sge((*answers_)[index]);
  ibv_recv_wr request{};
  request.wr_id = work_id(Work::answer, index);
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  if (const int error = ibv_post_recv(id_->qp, &request, &refused)) {
    fail("posting a receive", error);
  }
}

// Binds anew, with the next key: the one before is gone since its command was answered.
void HostQueue::bind_window(std::size_t tag, Direction direction, std::size_t length) {
  ibv_mw* window = windows_[tag].get();
  ibv_send_wr request{};
  request.wr_id = work_id(Work::bind, tag);
  request.opcode = IBV_WR_BIND_MW;
  request.bind_mw.mw = window;
  request.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  request.bind_mw.bind_info = {
      .mr = data_->region().mr(),
      .addr = reinterpret_cast<std::uintptr_t>(data(tag).data()),
      .length = length,
      .mw_access_flags = static_cast<unsigned>(
          direction == Direction::to_host ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ)};
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(id_->qp, &request, &refused)) {
    fail("binding a memory window", error);
  }
  window->rkey = request.bind_mw.rkey;
}

Sgl HostQueue::describe_data(std::size_t tag, Direction direction, std::size_t length) {
  if (direction == Direction::none || length == 0) {
    return {.kind = Sgl::Kind::keyed};
  }
  if (direction == Direction::from_host && length <= wishes_.in_capsule_bytes) {
    std::ranges::copy(data(tag).first(length), (*capsules_)[tag].begin() + command_bytes);
    ++counts_.in_capsule;
    return {
        .kind = Sgl::Kind::in_capsule, .address = 0, .length = static_cast<std::uint32_t>(length)};
  }
  ++counts_.by_key;
  Sgl sgl{.kind = Sgl::Kind::keyed,
          .address = reinterpret_cast<std::uintptr_t>(data(tag).data()),
          .length = static_cast<std::uint32_t>(length),
          .key = data_->region().mr()->rkey,
          .invalidate = wishes_.uses_windows};
  if (wishes_.uses_windows) {
    bind_window(tag, direction, length);
    sgl.key = windows_[tag]->rkey;
  }
  return sgl;
}

void HostQueue::submit(std::size_t tag, Command command, Direction direction, std::size_t length) {
  const Sgl sgl = describe_data(tag, direction, length);
  command.command_id = static_cast<std::uint16_t>(tag);
  command.flags = flags_sgl;
  command.sgl = sgl_bytes(sgl);
  const std::size_t behind = sgl.kind == Sgl::Kind::in_capsule ? length : 0;
  const auto capsule = (*capsules_)[tag].first(command_bytes + behind);
  std::memcpy(capsule.data(), &command, command_bytes);
  ibv_sge sge = capsules_->region().sge(capsule);
  ibv_send_wr request{};
  request.wr_id = work_id(Work::send, tag);
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &sge;
  request.num_sge = 1;
  slots_[tag] = {
      .is_sent = false, .is_answered = false, .has_window = sgl.invalidate, .completion = {}};
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(id_->qp, &request, &refused)) {
    fail("sending a command", error);
  }
}

Completion HostQueue::execute(const Command& command, Direction direction, std::size_t length) {
  submit(0, command, direction, length);
  const Done done = wait();
  if (done.tag != 0) {
    throw Failure("the target answered a command that should wait");
  }
  return done.completion;
}

Done HostQueue::wait() {
  ibv_wc completions[16];
  bool is_armed = false;
  while (done_.empty()) {
    const int count = ibv_poll_cq(cq_.get(), std::size(completions), completions);
    if (count < 0) {
      throw Failure("polling the completion queue failed");
    }
    std::for_each_n(completions, count, [this](const ibv_wc& wc) { on_completion(wc); });
    if (count == 0 && is_armed) {
      wait_for_event();
      is_armed = false;
    } else if (count == 0) {
      // What came before this is looked for once more.
      expect_zero(ibv_req_notify_cq(cq_.get(), 0), "asking for events");
      is_armed = true;
    }
  }
  const std::size_t tag = done_.front();
  done_.pop_front();
  return {.tag = tag, .completion = slots_[tag].completion};
}

void HostQueue::wait_for_event() {
  pollfd source{.fd = channel_->fd, .events = POLLIN, .revents = 0};
  const int ready = poll(&source, 1, static_cast<int>(wishes_.timeout.count()));
  if (ready == 0) {
    throw Failure("queue " + std::to_string(wishes_.queue_id) + ": no answer in " +
                  std::to_string(wishes_.timeout.count()) + " ms");
  }
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  expect_zero(ready < 0 ? -1 : ibv_get_cq_event(channel_.get(), &cq, &context),
              "waiting for an answer");
  ibv_ack_cq_events(cq, 1);
}

void HostQueue::on_completion(const ibv_wc& wc) {
  if (wc.status != IBV_WC_SUCCESS) {
    throw Failure("queue " + std::to_string(wishes_.queue_id) +
                  " failed: " + ibv_wc_status_str(wc.status));
  }
  switch (static_cast<Work>(wc.wr_id >> 32)) {
    case Work::answer:
      on_answer(wc);
      break;
    case Work::send: {
      const std::size_t tag = wc.wr_id & 0xffffffff;
      slots_[tag].is_sent = true;
      note_if_done(tag);
      break;
    }
    case Work::bind:  // Not signaled.
      break;
  }
}

void HostQueue::on_answer(const ibv_wc& wc) {
  const std::size_t index = wc.wr_id & 0xffffffff;
  if (wc.byte_len != completion_bytes) {
    throw Failure("a completion of " + std::to_string(wc.byte_len) + " bytes");
  }
  Completion completion;
  std::memcpy(&completion, (*answers_)[index].data(), completion_bytes);
  post_receive(index);
  const std::size_t tag = completion.command_id;
  if (tag >= slots_.size() || slots_[tag].is_answered) {
    throw Failure("a completion of a command that isn't under way: " + std::to_string(tag));
  }
  if ((wc.wc_flags & IBV_WC_WITH_INV) != 0) {
    if (!slots_[tag].has_window || wc.invalidated_rkey != windows_[tag]->rkey) {
      throw Failure("the target took away a key that wasn't its command's");
    }
    ++counts_.invalidated;
  } else if (slots_[tag].has_window) {
    throw Failure("the target was asked to take a key away, and didn't");
  }
  slots_[tag].is_answered = true;
  slots_[tag].completion = completion;
  note_if_done(tag);
}

void HostQueue::note_if_done(std::size_t tag) {
  if (slots_[tag].is_sent && slots_[tag].is_answered) {
    done_.push_back(tag);
  }
}

}  // namespace nvmf
