#include "sim/swarm_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "faults/parse.h"
#include "nic_model/qp_state_table.h"
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

constexpr Access remote_rights = Access::remote_write | Access::remote_read |
                                 Access::remote_atomic | Access::flush_global |
                                 Access::flush_persistent;

/// What the NIC should count for a completion.
void count_completion(Counters& seen, const Completion& completion, bool is_receive) {
  const bool flushed = completion.status == WcStatus::wr_flush_err;
  if (completion.status != WcStatus::success) {
    seen.add(is_receive ? Counter::resp_cqe_error : Counter::req_cqe_error);
    if (flushed) {
      seen.add(is_receive ? Counter::resp_cqe_flush_error : Counter::req_cqe_flush_error);
    }
  } else if (completion.opcode == WcOpcode::send) {
    seen.add(Counter::rdma_sends);
  } else if (completion.opcode == WcOpcode::recv) {
    seen.add(Counter::rdma_recvs);
  }
}

/// IDs of receives have this bit.
constexpr std::uint64_t receive_bit = std::uint64_t{1} << 32;

}  // namespace

SwarmWorld::SwarmWorld(std::uint64_t seed, const std::vector<bool>& without)
    : prng_(seed), simulation_(seed) {
  draw_hosts();
  draw_connections();
  draw_faults(without);
  simulation_.set_observer(this);
  seen_.resize(simulation_.stations().size());
  for (Shadow& shadow : shadows_) {
    const std::size_t index = static_cast<std::size_t>(&shadow - shadows_.data());
    const MutableBytes arena = nodes_[index]->arena();
    const std::size_t tail = shadow.used;
    shadow.used = std::min(shadow.used + tail_bytes, arena_bytes);
    shadow.guards.push_back({tail, shadow.used});
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
    const auto region = node.nic().reg_mr(node.pd(), node.arena().data(), arena_bytes, arena_va,
                                          Access::local_write | remote_rights);
    VERBENA_CHECK(region.has_value());
    regions_.push_back(*region);
    nodes_.push_back(&node);
    shadows_.emplace_back();
  }
  constexpr std::array<std::uint64_t, 4> rates{0, 1'000'000'000, 25'000'000'000, 100'000'000'000};
  LinkConfig link;
  link.bits_per_second = rates[prng_.below(rates.size())];
  link.delay = Duration(static_cast<std::int64_t>(prng_.below(20'000)));
  link.queue_bytes_max = std::size_t{8'192} << prng_.below(6);
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
  const std::size_t previous_end = shadow.used;
  shadow.used = (at + bytes + guard_bytes + 7) / 8 * 8;
  VERBENA_CHECK(shadow.used <= arena_bytes);
  shadow.guards.push_back({previous_end, at});
  shadow.guards.push_back({at + bytes, shadow.used});
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
  nic::QpAttr attr;
  attr.access_flags = remote_rights;
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
  for (const nic::QpState state : nic::bring_up_states) {
    attr.state = state;
    const std::uint32_t mask = nic::bring_up_mask(nic::QpType::rc, state);
    VERBENA_CHECK(side.node->nic().modify_qp(simulation_.now(), *side.qp, attr, mask).has_value());
  }
}

SwarmWorld::Request SwarmWorld::draw_request(Side& side, Side& peer) {
  constexpr std::array opcodes{
      WrOpcode::rdma_write,           WrOpcode::rdma_write_with_imm, WrOpcode::send,
      WrOpcode::send_with_imm,        WrOpcode::rdma_read,           WrOpcode::flush,
      WrOpcode::atomic_fetch_and_add, WrOpcode::atomic_write};
  Request request;
  request.opcode = opcodes[prng_.below(opcodes.size())];
  if (request.opcode == WrOpcode::flush) {
    if (const auto flush = draw_flush(side)) {
      return *flush;
    }
    request.opcode = WrOpcode::rdma_write;
  }
  request.length =
      is_atomic(request.opcode) || request.opcode == WrOpcode::atomic_write
          ? 8
          : static_cast<std::uint32_t>(prng_.below(
                std::min(message_packets_max * side.mtu_bytes, message_bytes_max_drawn) + 1));
  request.local = grant(*side.node, request.length);
  request.remote = is_atomic(request.opcode) ? peer.counter : grant(*peer.node, request.length);
  return request;
}

/// Of a part of what one of the WRITEs before it wrote.
std::optional<SwarmWorld::Request> SwarmWorld::draw_flush(const Side& side) {
  const auto writes = [](const Request& each) {
    return each.opcode == WrOpcode::rdma_write || each.opcode == WrOpcode::atomic_write;
  };
  const auto write = std::ranges::find_if(side.requests.rbegin(), side.requests.rend(), writes);
  if (write == side.requests.rend()) {
    return std::nullopt;
  }
  Request flush;
  flush.opcode = WrOpcode::flush;
  const auto skipped = static_cast<std::uint32_t>(prng_.below(write->length + 1));
  flush.length = static_cast<std::uint32_t>(prng_.below(write->length - skipped + 1));
  flush.local = write->local + skipped;
  flush.remote = write->remote + skipped;
  flush.persists = prng_.chance({2, 3});
  return flush;
}

void SwarmWorld::draw_work(Side& side, Side& peer) {
  std::uint64_t at = prng_.below(posting_ns);
  std::uint64_t receive_at = prng_.below(posting_ns);
  const std::uint64_t count = 1 + prng_.below(requests_max);
  for (std::uint64_t i = 0; i < count; ++i) {
    Request request = draw_request(side, peer);
    request.post_at = Duration(static_cast<std::int64_t>(at));
    // Some posts come in a burst, some after a while.
    at += prng_.chance({1, 2}) ? 0 : prng_.below(posting_ns / requests_max);
    side.requests.push_back(request);
    if (takes_receive(request.opcode)) {
      Receive receive;
      receive.request = side.requests.size() - 1;
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
                               " opcode=READ_REQUEST,FETCH_ADD",
                               " opcode=FLUSH,ATOMIC_WRITE"};
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
  if (request.opcode == WrOpcode::flush) {
    wr.flush = {.global_visibility = !request.persists,
                .persistence = request.persists,
                .length = request.length};
  } else {
    wr.sges = {&sge, 1};
  }
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
    count_completion(seen_[static_cast<std::size_t>(node.id())], completion, true);
    return check_completed_receive(*side, receive);
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
  count_completion(seen_[static_cast<std::size_t>(node.id())], completion, false);
  check_completed_request(*side, request);
}

void SwarmWorld::on_async_event(Node& /*node*/, const nic::AsyncEvent& /*event*/) {}

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
    check_counters();
  }
  if (!failure_ && simulation_.events_pending() > 0) {
    note_failure("something still happens after the longest possible time");
  }
  check_end();
  return failure_;
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
