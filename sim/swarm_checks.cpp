// What must hold in every world of the swarm. What can be seen at a step is checked at that step,
// so that a failure is told with the time at which it began; the rest at the end.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "proto/ib_bth/rc_requester.h"
#include "sim/swarm_world.h"

namespace verbena::sim {
namespace {

bool is_message(WrOpcode opcode) {
  return opcode == WrOpcode::send || opcode == WrOpcode::send_with_imm;
}

bool is_atomic(WrOpcode opcode) { return opcode == WrOpcode::atomic_fetch_and_add; }

bool is_write(WrOpcode opcode) {
  return opcode == WrOpcode::rdma_write || opcode == WrOpcode::rdma_write_with_imm ||
         opcode == WrOpcode::atomic_write;
}

/// Counters that follow from what is seen of a host from outside: frames, verdicts, completions.
constexpr std::array seen_counters{
    Counter::sent_pkts,
    Counter::tx_bytes,
    Counter::rcvd_pkts,
    Counter::rx_bytes,
    Counter::retransmitted_pkts,
    Counter::duplicate_request,
    Counter::out_of_buffer,
    Counter::send_rnr_err,
    Counter::rdma_sends,
    Counter::rdma_recvs,
    Counter::req_cqe_error,
    Counter::req_cqe_flush_error,
    Counter::resp_cqe_error,
    Counter::resp_cqe_flush_error,
    Counter::rx_icrc_encapsulated,
    Counter::rx_drop_not_roce,
    Counter::rx_drop_malformed,
    Counter::rx_drop_unknown_opcode,
    Counter::rx_drop_wrong_address,
    Counter::rx_drop_unknown_qp,
    Counter::rx_drop_qp_state,
    Counter::rx_drop_wrong_service,
    Counter::rx_drop_pkey,
    Counter::rx_drop_wrong_peer,
    Counter::rx_drop_stale_response,
    Counter::rx_drop_out_of_sequence,
    Counter::rx_drop_duplicate,
};

bool changes_memory(const PacketSummary& packet) {
  return packet.payload_bytes > 0 || packet.info().has(ib::ExtHeader::atomic_eth) ||
         packet.info().has(ib::ExtHeader::atomic_ack_eth);
}

}  // namespace

void SwarmWorld::on_sent(Time /*now*/, const Frame& frame) {
  Counters& seen = seen_[static_cast<std::size_t>(frame.origin)];
  seen.add(Counter::sent_pkts);
  seen.add(Counter::tx_bytes, frame.bytes.size());
  if (frame.note.kind == PacketNote::Kind::retransmission) {
    seen.add(Counter::retransmitted_pkts);
  }
  const PacketSummary packet = summarize(frame.bytes);
  if (!packet.is_transport || !packet.icrc_is_good) {
    return note_failure("a NIC sent a frame that isn't a good packet");
  }
  if (packet.info().is_request()) {
    check_window(frame, packet);
  }
}

void SwarmWorld::check_window(const Frame& frame, const PacketSummary& packet) {
  for (auto& sides : connections_) {
    for (Side& side : sides) {
      const Side& peer = peer_of(side);
      if (side.node->id() != frame.origin || nic::qpn_of(*peer.qp) != packet.fields.dest_qpn ||
          peer.node->gid() != packet.destination) {
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

void SwarmWorld::on_arrived(Time /*now*/, StationId at, const Frame& frame,
                            const RxVerdict& verdict) {
  Counters& seen = seen_[static_cast<std::size_t>(at)];
  seen.add(Counter::rcvd_pkts);
  seen.add(Counter::rx_bytes, frame.bytes.size());
  if (verdict.counter) {
    seen.add(*verdict.counter);
  }
  const PacketSummary packet = summarize(frame.bytes);
  if (!packet.is_transport || !packet.icrc_is_good) {
    return;
  }
  if (packet.info().is_request()) {
    const bool is_old =
        verdict.kind == RxVerdict::Kind::duplicate || verdict.counter == Counter::rx_drop_duplicate;
    const bool is_rnr = verdict.kind == RxVerdict::Kind::nak &&
                        ib::Syndrome::from_byte(verdict.syndrome).kind() == ib::AethKind::rnr_nak;
    seen.add(Counter::duplicate_request, is_old ? 1 : 0);
    seen.add(Counter::send_rnr_err, is_rnr ? 1 : 0);
  } else if (Side* const side = side_of(packet.fields.dest_qpn, at)) {
    const bool acknowledges = !packet.info().has(ib::ExtHeader::aeth) ||
                              packet.fields.aeth.syndrome().kind() == ib::AethKind::ack;
    const Psn reached = acknowledges ? packet.fields.psn.next() : packet.fields.psn;
    side->una = reached.is_after(side->una) ? reached : side->una;
  }
  if (changes_memory(packet)) {
    check_guards(at);
  }
}

/// What lies between the memory that requests name is never touched.
void SwarmWorld::check_guards(StationId host) {
  const Shadow& shadow = shadows_[static_cast<std::size_t>(host)];
  Node& node = *nodes_[static_cast<std::size_t>(host)];
  for (const Range& guard : shadow.guards) {
    const std::size_t bytes = guard.end - guard.begin;
    if (!std::ranges::equal(node.arena().subspan(guard.begin, bytes),
                            ByteView(shadow.before).subspan(guard.begin, bytes))) {
      return note_failure(fmt::format("memory of {} changed at {}..{}, which nobody was granted",
                                      node.name(), guard.begin, guard.end));
    }
  }
}

/// What a successful request promises holds when its completion comes.
void SwarmWorld::check_completed_request(Side& side, const Request& request) {
  if (request.status != WcStatus::success) {
    return;
  }
  if (request.opcode == WrOpcode::flush) {
    return check_flush(side, request);
  }
  if (!is_atomic(request.opcode)) {
    return check_request(side, request);
  }
  const auto got = read_struct<std::uint64_t>(side.node->arena().subspan(request.local));
  const std::uint64_t first = counter_before(peer_of(side));
  if (got != first + side.atomics_answered) {
    note_failure(fmt::format("atomic {} returns {} more than the first value",
                             side.atomics_answered, got - first));
  }
  ++side.atomics_answered;
}

void SwarmWorld::check_completed_receive(Side& side, const Receive& receive) {
  if (receive.status != WcStatus::success) {
    return;
  }
  Side& peer = peer_of(side);
  const Request& request = peer.requests[receive.request];
  if (receive.received_bytes != request.length) {
    note_failure(fmt::format("byte_len is {} of {}", receive.received_bytes, request.length));
  }
  const bool into_receive = is_message(request.opcode);
  const std::size_t at = into_receive ? receive.local : request.remote;
  if (!std::ranges::equal(side.node->arena().subspan(at, request.length),
                          peer.node->arena().subspan(request.local, request.length))) {
    note_failure(fmt::format("the bytes of a {} aren't those that were sent",
                             into_receive ? "SEND" : "WRITE with immediate data"));
  }
}

/// The NICs count what can be seen of them, no more and no less.
void SwarmWorld::check_counters() {
  for (std::size_t host = 0; host < nodes_.size(); ++host) {
    const Counters& counters = nodes_[host]->nic().counters();
    for (const Counter counter : seen_counters) {
      if (counters[counter] != seen_[host][counter]) {
        note_failure(
            fmt::format("{} counts {} {}, the trace {}", nodes_[host]->name(), counters[counter],
                        counter_names[static_cast<std::size_t>(counter)], seen_[host][counter]));
      }
    }
  }
}

void SwarmWorld::check_end() {
  for (auto& sides : connections_) {
    for (Side& side : sides) {
      check_side(side);
      check_messages(side);
      check_atomics(side);
    }
  }
  check_memory();
  check_counters();
  check_executed();
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
    if (request.opcode == WrOpcode::atomic_write) {
      check_atomic_write(side, request);
    }
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
  if (is_read || is_atomic(request.opcode)) {
    allow(*side.node, request.local, request.length);
  }
  if (!is_read && !is_write(request.opcode)) {
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

/// It is there as a whole or not at all, also where its request failed.
void SwarmWorld::check_atomic_write(Side& side, const Request& request) {
  const Node& to = *peer_of(side).node;
  const auto word_at = [](ByteView memory, std::size_t place) {
    return read_struct<std::uint64_t>(memory.subspan(place));
  };
  const std::uint64_t got = word_at(peer_of(side).node->arena(), request.remote);
  const auto& before = shadows_[static_cast<std::size_t>(to.id())].before;
  if (got != word_at(side.node->arena(), request.local) && got != word_at(before, request.remote)) {
    note_failure("an ATOMIC WRITE is there in part");
  }
}

/// After a loss of power, the bytes of the WRITE before it would be those that were written.
void SwarmWorld::check_flush(Side& side, const Request& request) {
  const ByteView kept = peer_of(side).node->persistent();
  if (!request.persists || request.length == 0) {
    return;
  }
  if (kept.empty() ||
      !std::ranges::equal(kept.subspan(request.remote, request.length),
                          side.node->arena().subspan(request.local, request.length))) {
    note_failure("a FLUSH completed, but what was written before isn't persistent");
  }
}

/// SENDs, and WRITEs with immediate data, against the receives that they met, in order.
void SwarmWorld::check_messages(Side& side) {
  Side& peer = peer_of(side);
  auto& granted = shadows_[static_cast<std::size_t>(peer.node->id())].granted;
  for (const Receive& receive : peer.receives) {
    std::fill_n(granted.begin() + static_cast<std::ptrdiff_t>(receive.local), receive.length, true);
    if (side.requests[receive.request].status == WcStatus::success &&
        receive.status != WcStatus::success) {
      note_failure("a message was acknowledged, but its receive didn't complete");
    }
    check_completed_receive(peer, receive);
  }
}

/// What the memory that the other side's atomics work on held at the beginning.
std::uint64_t SwarmWorld::counter_before(const Side& side) const {
  const auto& shadow = shadows_[static_cast<std::size_t>(side.node->id())];
  return read_struct<std::uint64_t>(ByteView(shadow.before).subspan(side.counter));
}

/// Every atomic adds one: their answers counted up, and the sum is in memory.
void SwarmWorld::check_atomics(Side& side) {
  Side& peer = peer_of(side);
  const auto last = read_struct<std::uint64_t>(peer.node->arena().subspan(peer.counter));
  const std::uint64_t executed = last - counter_before(peer);
  const auto posted =
      static_cast<std::uint64_t>(std::ranges::count_if(side.requests, is_atomic, &Request::opcode));
  if (executed < side.atomics_answered || executed > posted) {
    note_failure(fmt::format("{} atomics were answered, {} executed, {} posted",
                             side.atomics_answered, executed, posted));
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

/// Hosts whose connections all came through executed each request once.
void SwarmWorld::check_executed() {
  struct Executed {
    std::uint64_t writes = 0;
    std::uint64_t reads = 0;
    std::uint64_t atomics = 0;
    bool is_whole = true;
    bool operator==(const Executed&) const = default;
  };
  std::vector<Executed> posted(nodes_.size());
  for (auto& sides : connections_) {
    for (Side& side : sides) {
      Executed& at_peer = posted[static_cast<std::size_t>(peer_of(side).node->id())];
      for (const Request& request : side.requests) {
        // An ATOMIC WRITE counts as an atomic, a FLUSH as nothing.
        const bool is_atomic_write = request.opcode == WrOpcode::atomic_write;
        at_peer.writes += is_write(request.opcode) && !is_atomic_write ? 1 : 0;
        at_peer.reads += request.opcode == WrOpcode::rdma_read ? 1 : 0;
        at_peer.atomics += is_atomic(request.opcode) || is_atomic_write ? 1 : 0;
        at_peer.is_whole = at_peer.is_whole && request.status == WcStatus::success;
      }
    }
  }
  for (std::size_t host = 0; host < nodes_.size(); ++host) {
    const Counters& counters = nodes_[host]->nic().counters();
    const Executed executed{counters[Counter::rx_write_requests],
                            counters[Counter::rx_read_requests],
                            counters[Counter::rx_atomic_requests]};
    if (posted[host].is_whole && executed != posted[host]) {
      note_failure(fmt::format("{} executed {} WRITEs, {} READs and {} atomics of {}, {} and {}",
                               nodes_[host]->name(), executed.writes, executed.reads,
                               executed.atomics, posted[host].writes, posted[host].reads,
                               posted[host].atomics));
    }
  }
}

}  // namespace verbena::sim
