#include "sim/swarm_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "faults/parse.h"
#include "proto/ib_bth/rc_requester.h"
#include "proto/roce/gid.h"

namespace verbena::sim {
namespace {

/// Enough for the largest work that can be drawn, all of it on two hosts.
constexpr std::size_t arena_bytes = std::size_t{1} << 22;
/// Behind what is given out, so much is checked to be untouched.
constexpr std::size_t tail_bytes = 4'096;
/// Untouchable bytes between two grants.
constexpr std::size_t guard_bytes = 64;
constexpr std::uint64_t hosts_max = 4;
constexpr std::uint64_t connections_max = 5;
constexpr std::uint64_t requests_max = 24;
/// The longest message in packets: several, but not so many that a seed takes long.
constexpr std::uint64_t message_packets_max = 6;
constexpr std::uint64_t message_bytes_max_drawn = 8'192;
constexpr std::uint64_t faults_max = 4;
/// Posts are spread over this time, and faults end a while behind it.
constexpr std::uint64_t posting_ns = 500'000;
constexpr std::uint64_t faults_end_us = 2'000;
/// By then everything alive must have finished: many times the longest possible retries.
constexpr Duration time_max = std::chrono::seconds(60);

bool takes_receive(WrOpcode opcode) {
  return opcode == WrOpcode::send || opcode == WrOpcode::send_with_imm ||
         opcode == WrOpcode::rdma_write_with_imm;
}

bool is_atomic(WrOpcode opcode) { return opcode == WrOpcode::atomic_fetch_and_add; }

bool has_payload_into_receive(WrOpcode opcode) {
  return opcode == WrOpcode::send || opcode == WrOpcode::send_with_imm;
}

/// IDs of receives have this bit.
constexpr std::uint64_t receive_bit = std::uint64_t{1} << 32;

}  // namespace

SwarmWorld::SwarmWorld(std::uint64_t seed, const std::vector<bool>& without)
    : seed_(seed), prng_(seed), simulation_(seed) {
  draw_hosts();
  draw_connections();
  draw_faults(without);
  simulation_.set_observer(this);
  sent_.resize(simulation_.stations().size());
  arrived_.resize(simulation_.stations().size());
  for (Shadow& shadow : shadows_) {
    const std::size_t index = static_cast<std::size_t>(&shadow - shadows_.data());
    const MutableBytes arena = nodes_[index]->arena();
    shadow.used = std::min(shadow.used + tail_bytes, arena_bytes);
    for (std::size_t i = 0; i + 8 <= shadow.used; i += 8) {
      write_struct(arena.subspan(i), prng_.next());
    }
    shadow.before.assign(arena.begin(), arena.begin() + static_cast<std::ptrdiff_t>(shadow.used));
    shadow.granted.resize(shadow.used);
  }
}

void SwarmWorld::draw_hosts() {
  const std::uint64_t hosts = 2 + prng_.below(hosts_max - 1);
  for (std::uint64_t i = 0; i < hosts; ++i) {
    NodeConfig config;
    config.name = fmt::format("h{}", i);
    config.gid = roce::gid_from_ipv4(
        inet::Ipv4Address::from_value(0x0A00'0001 + static_cast<std::uint32_t>(i)));
    config.arena_bytes = arena_bytes;
    Node& node = simulation_.add_node(config);
    node.set_application(this);
    const Access all =
        Access::local_write | Access::remote_write | Access::remote_read | Access::remote_atomic;
    const auto region =
        node.nic().reg_mr(node.pd(), node.arena().data(), arena_bytes, arena_va, all);
    VERBENA_CHECK(region.has_value());
    regions_.push_back(*region);
    nodes_.push_back(&node);
    shadows_.emplace_back();
  }
  constexpr std::array<std::uint64_t, 4> rates{0, 1'000'000'000, 25'000'000'000, 100'000'000'000};
  LinkConfig link;
  link.bits_per_second = rates[prng_.below(rates.size())];
  link.delay = Duration(static_cast<std::int64_t>(prng_.below(20'000)));
  link.queue_bytes_max = 8'192 << prng_.below(6);
  if (hosts == 2 && prng_.chance({1, 2})) {
    simulation_.connect(*nodes_[0], *nodes_[1], link);
    return;
  }
  Switch& hub = simulation_.add_switch("switch", Duration(300));
  for (Node* const node : nodes_) {
    simulation_.connect(*node, hub, link);
  }
}

std::size_t SwarmWorld::grant(Node& node, std::size_t bytes) {
  Shadow& shadow = shadows_[static_cast<std::size_t>(node.id())];
  // Aligned for atomics, except that data may begin anywhere.
  const std::size_t at = shadow.used + (bytes == 8 ? 0 : prng_.below(8));
  shadow.used = (at + bytes + guard_bytes + 7) / 8 * 8;
  VERBENA_CHECK(shadow.used <= arena_bytes);
  return at;
}

void SwarmWorld::draw_connections() {
  const std::uint64_t count = 1 + prng_.below(connections_max);
  connections_.resize(count);
  for (auto& sides : connections_) {
    const std::size_t a = prng_.below(nodes_.size());
    const std::size_t b = (a + 1 + prng_.below(nodes_.size() - 1)) % nodes_.size();
    sides[0].node = nodes_[a];
    sides[1].node = nodes_[b];
    const auto mtu = static_cast<nic::Mtu>(1 + prng_.below(5));
    const auto rd_atomic = static_cast<std::uint8_t>(1 + prng_.below(4));
    const auto timeout = static_cast<std::uint8_t>(5 + prng_.below(5));
    for (Side& side : sides) {
      side.mtu_bytes = nic::mtu_bytes(mtu);
      side.rd_atomic = rd_atomic;
      side.first_psn = side.una = Psn(static_cast<std::uint32_t>(prng_.next()));
      side.counter = grant(*side.node, 8);
      nic::QpInitAttr init;
      init.send_cq = init.recv_cq = &side.node->cq();
      init.caps = {.send_wr_max = 64,
                   .recv_wr_max = 64,
                   .send_sge_max = 2,
                   .recv_sge_max = 2,
                   .inline_bytes_max = 64};
      const auto qp = side.node->nic().create_qp(side.node->pd(), init);
      VERBENA_CHECK(qp.has_value());
      side.qp = *qp;
    }
    connect(sides[0], sides[1], timeout, mtu);
    connect(sides[1], sides[0], timeout, mtu);
    draw_work(sides[0], sides[1]);
    draw_work(sides[1], sides[0]);
  }
}

void SwarmWorld::connect(Side& side, const Side& peer, std::uint8_t timeout, nic::Mtu mtu) {
  namespace m = nic::qp_attr_mask;
  nic::QpAttr attr;
  attr.access_flags = Access::remote_write | Access::remote_read | Access::remote_atomic;
  attr.av.dgid = peer.node->gid();
  attr.av.has_grh = true;
  attr.av.hop_limit = 64;
  attr.path_mtu = mtu;
  attr.dest_qpn = nic::qpn_of(*peer.qp);
  attr.rq_psn = peer.first_psn;
  attr.sq_psn = side.first_psn;
  attr.max_rd_atomic = attr.max_dest_rd_atomic = side.rd_atomic;
  attr.min_rnr_timer = static_cast<std::uint8_t>(1 + prng_.below(12));
  attr.timeout = timeout;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  const std::array<std::pair<nic::QpState, std::uint32_t>, 3> steps{
      {{nic::QpState::init, m::pkey_index | m::port | m::access_flags},
       {nic::QpState::rtr,
        m::av | m::path_mtu | m::dest_qpn | m::rq_psn | m::max_dest_rd_atomic | m::min_rnr_timer},
       {nic::QpState::rts,
        m::timeout | m::retry_cnt | m::rnr_retry | m::sq_psn | m::max_qp_rd_atomic}}};
  for (const auto& [state, mask] : steps) {
    attr.state = state;
    VERBENA_CHECK(
        side.node->nic().modify_qp(simulation_.now(), *side.qp, attr, mask | m::state).has_value());
  }
}

void SwarmWorld::draw_work(Side& side, Side& peer) {
  constexpr std::array opcodes{WrOpcode::rdma_write, WrOpcode::rdma_write_with_imm,
                               WrOpcode::send,       WrOpcode::send_with_imm,
                               WrOpcode::rdma_read,  WrOpcode::atomic_fetch_and_add};
  std::uint64_t at = prng_.below(posting_ns);
  std::uint64_t receive_at = prng_.below(posting_ns);
  const std::uint64_t count = 1 + prng_.below(requests_max);
  for (std::uint64_t i = 0; i < count; ++i) {
    Request request;
    request.opcode = opcodes[prng_.below(opcodes.size())];
    request.length =
        is_atomic(request.opcode)
            ? 8
            : static_cast<std::uint32_t>(prng_.below(
                  std::min(message_packets_max * side.mtu_bytes, message_bytes_max_drawn) + 1));
    request.local = grant(*side.node, request.length);
    request.remote = is_atomic(request.opcode) ? peer.counter : grant(*peer.node, request.length);
    request.post_at = Duration(static_cast<std::int64_t>(at));
    // Some posts come in a burst, some after a while.
    at += prng_.chance({1, 2}) ? 0 : prng_.below(posting_ns / requests_max);
    side.requests.push_back(request);
    if (takes_receive(request.opcode)) {
      Receive receive;
      receive.length = request.length + static_cast<std::uint32_t>(prng_.below(64));
      receive.local = grant(*peer.node, receive.length);
      receive.post_at = Duration(static_cast<std::int64_t>(receive_at));
      receive_at += prng_.below(posting_ns / requests_max);
      peer.receives.push_back(receive);
    }
  }
}

void SwarmWorld::draw_faults(const std::vector<bool>& without) {
  constexpr std::array kinds{"drop",      "drop",    "drop",   "delay by=5us jitter=40us",
                             "duplicate", "reorder", "corrupt"};
  constexpr std::array matches{"",
                               "",
                               " opcode=ACKNOWLEDGE",
                               " opcode=READ_RESPONSE_*",
                               " opcode=ATOMIC_ACKNOWLEDGE",
                               " opcode=WRITE_LAST,SEND_LAST",
                               " opcode=READ_REQUEST,FETCH_ADD"};
  const std::uint64_t count = prng_.below(faults_max + 1);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string text = kinds[prng_.below(kinds.size())];
    text += matches[prng_.below(matches.size())];
    if (prng_.chance({1, 3})) {
      text += fmt::format(" nth={}", 1 + prng_.below(40));
    } else {
      text += fmt::format(" chance={}/1000", 1 + prng_.below(150));
    }
    text += fmt::format(" until={}us", faults_end_us);
    auto rule = faults::parse_rule(text);
    VERBENA_CHECK(rule.has_value());
    if (i >= without.size() || !without[i]) {
      faults_.push_back(*std::move(rule));
    }
  }
  simulation_.faults().add(faults_);
}

SwarmWorld::Side& SwarmWorld::peer_of(Side& side) {
  for (auto& sides : connections_) {
    if (&sides[0] == &side) {
      return sides[1];
    }
    if (&sides[1] == &side) {
      return sides[0];
    }
  }
  VERBENA_CHECK(false);
  return side;
}

SwarmWorld::Side* SwarmWorld::side_of(Qpn qpn, StationId station) {
  for (auto& sides : connections_) {
    for (Side& side : sides) {
      if (side.node->id() == station && nic::qpn_of(*side.qp) == qpn) {
        return &side;
      }
    }
  }
  return nullptr;
}

void SwarmWorld::note_failure(std::string text) {
  if (!failure_) {
    failure_ = fmt::format("at {} ns: {}", simulation_.now().time_since_epoch().count(), text);
  }
}

void SwarmWorld::post_request(Side& side, Request& request, std::uint64_t id) {
  const Sge sge{.addr = arena_va + request.local,
                .length = request.length,
                .lkey = regions_[static_cast<std::size_t>(side.node->id())]->lkey};
  SendWr wr;
  wr.wr_id = id;
  wr.opcode = request.opcode;
  wr.signaled = true;
  wr.sges = {&sge, 1};
  wr.imm = ImmData{static_cast<std::uint32_t>(id)};
  wr.remote_addr = arena_va + request.remote;
  wr.rkey = regions_[static_cast<std::size_t>(peer_of(side).node->id())]->rkey;
  wr.compare_add = 1;
  if (!side.node->nic().post_send(simulation_.now(), *side.qp, wr)) {
    note_failure("a work request was refused though there was room");
  }
}

void SwarmWorld::post_due(Side& side, Time now) {
  const Duration at = now.time_since_epoch();
  while (side.receives_posted < side.receives.size() &&
         side.receives[side.receives_posted].post_at <= at) {
    const Receive& receive = side.receives[side.receives_posted];
    const Sge sge{.addr = arena_va + receive.local,
                  .length = receive.length,
                  .lkey = regions_[static_cast<std::size_t>(side.node->id())]->lkey};
    if (!side.node->nic().post_recv(
            now, *side.qp, {.wr_id = receive_bit | side.receives_posted, .sges = {&sge, 1}})) {
      note_failure("a receive was refused though there was room");
    }
    ++side.receives_posted;
  }
  while (side.requests_posted < side.requests.size() &&
         side.requests[side.requests_posted].post_at <= at) {
    post_request(side, side.requests[side.requests_posted], side.requests_posted);
    ++side.requests_posted;
  }
  side.node->drive();
}

void SwarmWorld::on_event(Time now, std::uint64_t token) {
  post_due(connections_[token / 2][token % 2], now);
}

void SwarmWorld::on_completion(Node& node, const Completion& completion) {
  Side* const side = side_of(completion.qpn, node.id());
  if (side == nullptr) {
    return note_failure("a completion names a queue pair that doesn't exist");
  }
  if ((completion.wr_id & receive_bit) != 0) {
    const std::uint64_t id = completion.wr_id & ~receive_bit;
    if (id != side->receives_done || id >= side->receives_posted) {
      return note_failure(
          fmt::format("receive {} completes where {} was due", id, side->receives_done));
    }
    Receive& receive = side->receives[side->receives_done++];
    receive.status = completion.status;
    receive.received_bytes = completion.byte_len;
    return;
  }
  if (completion.wr_id != side->requests_done || completion.wr_id >= side->requests_posted) {
    return note_failure(fmt::format("request {} completes where {} was due", completion.wr_id,
                                    side->requests_done));
  }
  Request& request = side->requests[side->requests_done++];
  if (completion.opcode != completion_opcode(request.opcode)) {
    note_failure(fmt::format("request {} completes as another operation", completion.wr_id));
  }
  request.status = completion.status;
}

void SwarmWorld::on_async_event(Node& /*node*/, const nic::AsyncEvent& /*event*/) {}

void SwarmWorld::on_sent(Time /*now*/, const Frame& frame) {
  ++sent_[static_cast<std::size_t>(frame.origin)];
  const PacketSummary packet = summarize(frame.bytes);
  if (!packet.is_transport || !packet.icrc_is_good) {
    return note_failure("a NIC sent a frame that isn't a good packet");
  }
  if (!packet.info().is_request()) {
    return;
  }
  for (auto& sides : connections_) {
    for (Side& side : sides) {
      if (side.node->id() != frame.origin ||
          nic::qpn_of(*peer_of(side).qp) != packet.fields.dest_qpn ||
          peer_of(side).node->gid() != packet.destination) {
        continue;
      }
      const std::int32_t distance = packet.fields.psn - side.una;
      const auto window = static_cast<std::int32_t>(ib::inflight_packets_max +
                                                    message_packets_max * side.rd_atomic);
      if (distance >= window) {
        note_failure(fmt::format("PSN {} is sent {} beyond the last acknowledged",
                                 packet.fields.psn.value(), distance));
      }
    }
  }
}

void SwarmWorld::on_arrived(Time /*now*/, StationId at, const Frame& frame) {
  ++arrived_[static_cast<std::size_t>(at)];
  const PacketSummary packet = summarize(frame.bytes);
  if (!packet.is_transport || !packet.icrc_is_good || !packet.info().is_response()) {
    return;
  }
  Side* const side = side_of(packet.fields.dest_qpn, at);
  if (side == nullptr) {
    return;
  }
  const bool acknowledges = !packet.info().has(ib::ExtHeader::aeth) ||
                            packet.fields.aeth.syndrome().kind() == ib::AethKind::ack;
  const Psn reached = acknowledges ? packet.fields.psn.next() : packet.fields.psn;
  if (reached.is_after(side->una)) {
    side->una = reached;
  }
}

std::optional<std::string> SwarmWorld::run() {
  for (std::uint64_t i = 0; i < connections_.size(); ++i) {
    for (std::uint64_t end = 0; end < 2; ++end) {
      const Side& side = connections_[i][end];
      for (const Request& request : side.requests) {
        simulation_.schedule(Time{} + request.post_at, *this, 2 * i + end);
      }
      for (const Receive& receive : side.receives) {
        simulation_.schedule(Time{} + receive.post_at, *this, 2 * i + end);
      }
    }
  }
  while (!failure_ && simulation_.now() < Time{} + time_max && simulation_.step()) {
  }
  if (!failure_ && simulation_.events_pending() > 0) {
    note_failure("something still happens after the longest possible time");
  }
  for (auto& sides : connections_) {
    for (Side& side : sides) {
      check_side(side);
      check_messages(side);
      check_atomics(side);
    }
  }
  check_memory();
  check_counters();
  return failure_;
}

void SwarmWorld::check_side(Side& side) {
  const nic::QpState state = nic::state_of(*side.qp);
  const std::string name =
      fmt::format("{} QP {:#x}", side.node->name(), to_value(nic::qpn_of(*side.qp)));
  if (side.requests_done != side.requests.size()) {
    note_failure(fmt::format("{}: {} of {} requests never completed; the state is {}", name,
                             side.requests.size() - side.requests_done, side.requests.size(),
                             nic::name_of(state)));
  }
  if (state == nic::QpState::err && side.receives_done != side.receives.size()) {
    note_failure(fmt::format("{}: receives weren't flushed", name));
  }
  if (state == nic::QpState::rts && std::ranges::any_of(side.requests, [](const Request& request) {
        return request.status != WcStatus::success;
      })) {
    note_failure(fmt::format("{}: a request failed, but the state is RTS", name));
  }
  for (const Request& request : side.requests) {
    check_request(side, request);
  }
}

/// The bytes of one request, where they should be; marks what it may have changed.
void SwarmWorld::check_request(Side& side, const Request& request) {
  Side& peer = peer_of(side);
  const auto allow = [&](Node& node, std::size_t at, std::size_t bytes) {
    auto& granted = shadows_[static_cast<std::size_t>(node.id())].granted;
    std::fill_n(granted.begin() + static_cast<std::ptrdiff_t>(at), bytes, true);
  };
  const bool is_read = request.opcode == WrOpcode::rdma_read;
  const bool is_write =
      request.opcode == WrOpcode::rdma_write || request.opcode == WrOpcode::rdma_write_with_imm;
  if (is_read || is_atomic(request.opcode)) {
    allow(*side.node, request.local, request.length);
  }
  if (!is_read && !is_write) {
    return;
  }
  Node& to = is_read ? *side.node : *peer.node;
  Node& from = is_read ? *peer.node : *side.node;
  const std::size_t to_at = is_read ? request.local : request.remote;
  const std::size_t from_at = is_read ? request.remote : request.local;
  allow(to, to_at, request.length);
  const auto& before = shadows_[static_cast<std::size_t>(to.id())].before;
  for (std::size_t i = 0; i < request.length; ++i) {
    const std::byte got = to.arena()[to_at + i];
    const bool is_new = got == from.arena()[from_at + i];
    const bool is_old = got == before[to_at + i];
    if (!is_new && (request.status == WcStatus::success || !is_old)) {
      return note_failure(fmt::format("byte {} of a {} of {} bytes is neither old nor new", i,
                                      is_read ? "READ" : "WRITE", request.length));
    }
  }
}

/// SENDs, and WRITEs with immediate data, against the receives that they met, in order.
void SwarmWorld::check_messages(Side& side) {
  Side& peer = peer_of(side);
  std::size_t receive_index = 0;
  for (const Request& request : side.requests) {
    if (!takes_receive(request.opcode)) {
      continue;
    }
    const Receive& receive = peer.receives[receive_index++];
    auto& granted = shadows_[static_cast<std::size_t>(peer.node->id())].granted;
    std::fill_n(granted.begin() + static_cast<std::ptrdiff_t>(receive.local), receive.length, true);
    if (request.status == WcStatus::success && receive.status != WcStatus::success) {
      note_failure("a message was acknowledged, but its receive didn't complete");
    }
    if (receive.status != WcStatus::success) {
      continue;
    }
    if (receive.received_bytes != request.length) {
      note_failure(fmt::format("byte_len is {} of {}", receive.received_bytes, request.length));
    }
    if (has_payload_into_receive(request.opcode) &&
        !std::ranges::equal(peer.node->arena().subspan(receive.local, request.length),
                            side.node->arena().subspan(request.local, request.length))) {
      note_failure("a SEND's bytes aren't those that were sent");
    }
  }
}

/// Every atomic adds one: their answers count up from the first value, and the sum is in memory.
void SwarmWorld::check_atomics(Side& side) {
  Side& peer = peer_of(side);
  const auto& shadow = shadows_[static_cast<std::size_t>(peer.node->id())];
  const auto first = read_struct<std::uint64_t>(ByteView(shadow.before).subspan(peer.counter));
  const auto last = read_struct<std::uint64_t>(peer.node->arena().subspan(peer.counter));
  std::uint64_t posted = 0;
  std::uint64_t answered = 0;
  for (const Request& request : side.requests) {
    if (!is_atomic(request.opcode)) {
      continue;
    }
    ++posted;
    if (request.status == WcStatus::success) {
      const auto got = read_struct<std::uint64_t>(side.node->arena().subspan(request.local));
      if (got != first + answered) {
        note_failure(
            fmt::format("atomic {} returns {} more than the first value", answered, got - first));
      }
      ++answered;
    }
  }
  if (last - first < answered || last - first > posted) {
    note_failure(fmt::format("{} atomics were answered, {} executed, {} posted", answered,
                             last - first, posted));
  }
  auto& granted = shadows_[static_cast<std::size_t>(peer.node->id())].granted;
  std::fill_n(granted.begin() + static_cast<std::ptrdiff_t>(peer.counter), 8, true);
}

/// Whatever no request named is as it was.
void SwarmWorld::check_memory() {
  for (std::size_t host = 0; host < nodes_.size(); ++host) {
    const Shadow& shadow = shadows_[host];
    const ByteView arena = nodes_[host]->arena();
    for (std::size_t i = 0; i < shadow.used; ++i) {
      if (arena[i] != shadow.before[i] && !shadow.granted[i]) {
        return note_failure(fmt::format("byte {} of {}'s memory changed, which nobody was granted",
                                        i, nodes_[host]->name()));
      }
    }
  }
}

void SwarmWorld::check_counters() {
  for (std::size_t host = 0; host < nodes_.size(); ++host) {
    const Counters& counters = nodes_[host]->nic().counters();
    if (counters[Counter::sent_pkts] != sent_[host] ||
        counters[Counter::rcvd_pkts] != arrived_[host]) {
      note_failure(fmt::format("{} counts {} sent and {} received, the trace {} and {}",
                               nodes_[host]->name(), counters[Counter::sent_pkts],
                               counters[Counter::rcvd_pkts], sent_[host], arrived_[host]));
    }
  }
}

std::uint64_t SwarmWorld::retransmissions() const {
  std::uint64_t sum = 0;
  for (const Node* const node : nodes_) {
    sum += node->nic().counters()[Counter::retransmitted_pkts];
  }
  return sum;
}

std::uint64_t SwarmWorld::broken_connections() const {
  std::uint64_t sum = 0;
  for (const auto& sides : connections_) {
    const bool broken = std::ranges::any_of(
        sides, [](const Side& side) { return nic::state_of(*side.qp) == nic::QpState::err; });
    sum += broken ? 1 : 0;
  }
  return sum;
}

}  // namespace verbena::sim
