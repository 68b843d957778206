#include "sim/node.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/check.h"
#include "proto/roce/gid.h"

namespace verbena::sim {
namespace {

nic::DeviceProfile profile_of(const NodeConfig& config) {
  nic::DeviceProfile profile = nic::default_profile();
  profile.has_rdmap_extensions = config.rdmap_extensions;
  return profile;
}

nic::NicConfig nic_config(const NodeConfig& config, StationId id, nic::PersistentStore& store) {
  nic::NicConfig result;
  result.technology = config.technology;
  result.node_guid = 0x0200'00FF'FE00'0000 + static_cast<std::uint64_t>(id);
  result.mtu_max = config.mtu_max;
  result.gids = {{.gid = config.gid, .type = config.encapsulation}};
  if (config.alternate_gid) {
    result.gids.push_back({.gid = *config.alternate_gid, .type = config.encapsulation});
  }
  result.persistent_store = &store;
  return result;
}

template <class T, class E>
T must(Result<T, E> result) {
  VERBENA_CHECK(result.has_value());
  return *result;
}

}  // namespace

std::string_view name_of(WcOpcode opcode) noexcept {
  switch (opcode) {
    case WcOpcode::send:
      return "send";
    case WcOpcode::rdma_write:
      return "rdma_write";
    case WcOpcode::rdma_read:
      return "rdma_read";
    case WcOpcode::comp_swap:
      return "comp_swap";
    case WcOpcode::fetch_add:
      return "fetch_add";
    case WcOpcode::bind_mw:
      return "bind_mw";
    case WcOpcode::local_inv:
      return "local_inv";
    case WcOpcode::flush:
      return "flush";
    case WcOpcode::atomic_write:
      return "atomic_write";
    case WcOpcode::recv:
      return "recv";
    case WcOpcode::recv_rdma_with_imm:
      return "recv_rdma_with_imm";
  }
  return "unknown";
}

std::string describe(const Completion& completion) {
  std::string text = fmt::format("wr {}: {} {}", completion.wr_id, name_of(completion.opcode),
                                 verbena::name_of(completion.status));
  if (completion.status == WcStatus::success) {
    text += fmt::format(", {} bytes", completion.byte_len);
  }
  if (completion.with_imm) {
    text += fmt::format(", imm {:#x}", completion.imm_or_rkey);
  }
  return text;
}

Node::Node(World& world, StationId id, const NodeConfig& config, std::uint64_t seed)
    : Station(world, id, config.name),
      arena_bytes_(config.arena_bytes),
      arena_(std::make_unique<std::byte[]>(config.arena_bytes)),
      nic_(profile_of(config), nic_config(config, id, *this), seed),
      pd_(must(nic_.alloc_pd())),
      cq_(must(nic_.create_cq(config.cqe, 0))) {
  nic_.add_qpn_block(config.first_qpn, config.qpn_count);
  if (config.technology == nic::Technology::iwarp) {
    const auto address = roce::ipv4_from_gid(config.gid);
    VERBENA_CHECK(address.has_value());
    tcp_ = std::make_unique<TcpHost>(nic_, *address);
  }
}

MutableBytes Node::reserve(const FrameRoute& /*route*/, std::size_t bytes) {
  if (!channel_->has_room()) {
    return {};
  }
  if (!has_reserved_) {
    reserved_ = world_.frames.take();
    has_reserved_ = true;
  }
  auto& buffer = world_.frames.at(reserved_).bytes;
  buffer.resize(bytes);
  return buffer;
}

void Node::commit(const PacketNote& note) {
  world_.frames.at(reserved_).note = note;
  has_reserved_ = false;
  channel_->send(reserved_);
}

void Node::receive(FrameRef frame) {
  if (paused_) {
    while_paused_.push_back(frame);
    return;
  }
  take_frame(frame);
  drive();
}

void Node::take_frame(FrameRef ref) {
  const Frame& frame = world_.frames.at(ref);
  const RxVerdict verdict =
      tcp_ ? tcp_->on_frame(world_.now, frame.bytes) : nic_.on_frame(world_.now, frame.bytes);
  world_.trace.arrived(world_.now, id(), frame, verdict);
  if (world_.observer != nullptr) {
    world_.observer->on_arrived(world_.now, id(), frame, verdict);
  }
  if (world_.capture != nullptr) {
    world_.capture->write(world_.now, id(), frame.bytes, pcap::Direction::inbound,
                          verbena::describe(verdict));
  }
  world_.frames.give_back(ref);
}

void Node::resume() {
  if (!paused_) {
    return;
  }
  paused_ = false;
  while (!while_paused_.empty()) {
    const FrameRef frame = while_paused_.front();
    while_paused_.pop_front();
    take_frame(frame);
  }
  if (std::exchange(timer_was_due_, false)) {
    run_timers();
  }
  drive();
}

bool Node::make_persistent(std::byte* start, std::uint64_t bytes) noexcept {
  persistent_.resize(arena_bytes_);
  const auto offset = static_cast<std::size_t>(start - arena_.get());
  copy_bytes(MutableBytes(persistent_).subspan(offset, bytes), arena().subspan(offset, bytes));
  return true;
}

void Node::lose_power() {
  pause();
  persistent_.resize(arena_bytes_);
  copy_bytes(arena(), persistent_);
}

void Node::on_event(Time now, std::uint64_t /*token*/) {
  if (now != timer_at_) {
    return;  // A timer that was set for an earlier deadline, which has been replaced since.
  }
  timer_at_ = time_never;
  if (paused_) {
    timer_was_due_ = true;
    return;
  }
  if (next_timeout() <= now) {
    run_timers();
  }
  drive();
}

void Node::run_timers() {
  nic_.on_timer(world_.now);
  if (tcp_) {
    tcp_->on_timer(world_.now);
  }
}

void Node::transmit() {
  if (tcp_) {
    tcp_->run(world_.now, *this);
  }
  while (nic_.poll_transmit(world_.now, *this) == nic::TransmitStatus::more) {
  }
}

Time Node::next_timeout() const {
  return std::min({nic_.next_timeout(), tcp_ ? tcp_->next_timeout() : time_never,
                   service_ != nullptr ? service_->next_deadline() : time_never});
}

void Node::drive() {
  if (paused_ || driving_) {
    drive_again_ = driving_;
    return;
  }
  driving_ = true;
  bool again = true;
  while (again) {
    drive_again_ = false;
    transmit();
    again = hand_out_completions();
    again = hand_out_events() || again;
    again = (service_ != nullptr && service_->serve(world_.now)) || again;
    again = again || drive_again_;
  }
  driving_ = false;
  set_timer();
}

bool Node::hand_out_completions() {
  std::array<Completion, 32> batch;
  bool any = false;
  for (std::uint32_t count = cq_->poll(batch); count > 0; count = cq_->poll(batch)) {
    any = true;
    for (const Completion& completion : std::span(batch).first(count)) {
      world_.trace.add(world_.now, TraceKind::completed, id(), describe(completion));
      if (application_ != nullptr) {
        application_->on_completion(*this, completion);
      }
    }
  }
  return any;
}

bool Node::hand_out_events() {
  bool any = false;
  while (const auto event = nic_.poll_event()) {
    any = true;
    world_.trace.add(world_.now, TraceKind::event, id(), nic::name_of(event->type));
    if (application_ != nullptr) {
      application_->on_async_event(*this, *event);
    }
  }
  return any;
}

void Node::set_timer() {
  const Time deadline = next_timeout();
  if (deadline != time_never && deadline < timer_at_) {
    timer_at_ = std::max(deadline, world_.now);
    world_.queue.schedule(timer_at_, *this, 0);
  }
}

}  // namespace verbena::sim
