#include "proto/ib_bth/cm/agent.h"

#include <algorithm>
#include <iterator>

#include "proto/ib_bth/cm/connection.h"

namespace verbena::ib::cm {

namespace {

constexpr std::uint32_t id_counter_mask = 0x00FF'FFFF;
constexpr unsigned id_prefix_shift = 24;
/// For how long a peer is asked to be patient while the consumer decides (as Linux: 4.096 us * 2^24
/// are 69 seconds).
constexpr std::uint8_t mra_service_timeout = 24;
/// For how long an answered SIDR_REQ is remembered, for duplicates that are under way.
constexpr Duration sidr_memory = timeout_of(19);

/// The beginning of `area`; what doesn't fit is the caller's error.
template <std::size_t size>
PrivateData<size> private_area(ByteView bytes) {
  PrivateData<size> area{};
  copy_bytes(area, bytes.first(std::min(bytes.size(), size)));
  return area;
}

}  // namespace

Agent::Agent(const AgentConfig& config, std::uint64_t seed)
    : config_(config), prng_(seed), next_id_(static_cast<std::uint32_t>(prng_.next())) {}

Agent::~Agent() = default;

// --- Connections by their names

Connection& Agent::create(const Route& route) {
  CommId id{};
  do {
    next_id_ = (next_id_ + 1) & id_counter_mask;
    id = CommId{std::uint32_t{config_.id_prefix} << id_prefix_shift | next_id_};
  } while (connections_.contains(id) || id == CommId{});
  Connection& connection = connections_[id];
  connection.id = id;
  connection.route = route;
  return connection;
}

Connection* Agent::find(CommId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

Connection* Agent::find(CommId id, CommId remote_id) {
  Connection* connection = find(id);
  return connection != nullptr && connection->remote_id == remote_id ? connection : nullptr;
}

bool Agent::is_own(CommId id) const { return to_value(id) >> id_prefix_shift == config_.id_prefix; }

void Agent::erase(Connection& connection) {
  set_deadline(connection, time_never);
  forget_remote_qp(connection);
  const auto remote = by_remote_.find(
      RemoteKey{connection.route.remote, connection.remote_guid, connection.remote_id});
  if (remote != by_remote_.end() && remote->second == connection.id) {
    by_remote_.erase(remote);
  }
  connections_.erase(connection.id);
}

void Agent::set_deadline(Connection& connection, Time deadline) {
  if (connection.deadline != time_never) {
    deadlines_.erase({connection.deadline, connection.id});
  }
  connection.deadline = deadline;
  if (deadline != time_never) {
    deadlines_.insert({deadline, connection.id});
  }
}

Connection* Agent::claim_remote_qp(Connection& connection, std::uint64_t guid, Qpn qpn) {
  const auto [place, is_new] =
      by_remote_qp_.try_emplace(RemoteQp{connection.route.remote, guid, qpn}, connection.id);
  if (!is_new) {
    return find(place->second);
  }
  connection.remote_guid = guid;
  connection.remote_qpn = qpn;
  return nullptr;
}

void Agent::end_stale(Time now, Connection& stale) {
  if (stale.state == State::established) {
    begin_disconnect(now, stale, {});
  } else {
    raise(stale, Event::Kind::rejected, Rej{.reason = RejectReason::stale_connection});
    close(stale);
  }
}

void Agent::forget_remote_qp(Connection& connection) {
  const auto place = by_remote_qp_.find(
      RemoteQp{connection.route.remote, connection.remote_guid, connection.remote_qpn});
  if (place != by_remote_qp_.end() && place->second == connection.id) {
    by_remote_qp_.erase(place);
  }
}

void Agent::raise(const Connection& connection, Event::Kind kind,
                  const std::optional<Message>& message) {
  if (!connection.orphan) {
    events_.push_back({.kind = kind,
                       .id = connection.id,
                       .cookie = connection.cookie,
                       .route = connection.route,
                       .message = message});
  }
}

// --- Listening

void Agent::listen(std::uintptr_t cookie, ServiceId service, const std::optional<Gid>& address) {
  listeners_.push_back({cookie, service, address});
}

void Agent::unlisten(std::uintptr_t cookie) {
  std::erase_if(listeners_, [&](const Listener& each) { return each.cookie == cookie; });
}

const Agent::Listener* Agent::listener_for(ServiceId service, const Gid& address) const {
  const Listener* wildcard = nullptr;
  for (const Listener& each : listeners_) {
    if (each.service != service) {
      continue;
    }
    if (each.address == address) {
      return &each;
    }
    if (!each.address) {
      wildcard = &each;
    }
  }
  return wildcard;
}

// --- Sending

std::uint64_t Agent::new_transaction(CommId id) {
  return (prng_.next() & 0xFFFF'FFFF'0000'0000) | to_value(id);
}

void Agent::send(const Route& route, std::uint64_t transaction_id, const Message& message) {
  outgoing_.push_back(
      {.route = route, .mad = emit({.transaction_id = transaction_id, .message = message})});
}

void Agent::send_until_answered(Time now, Connection& connection, const Message& message) {
  send(connection.route, connection.transaction_id, message);
  connection.last_sent = outgoing_.back().mad;
  connection.answer_time =
      std::min(connection.answer_time, config_.patience_max / (connection.retries_max + 1));
  connection.retries_left = connection.retries_max;
  set_deadline(connection, now + connection.answer_time);
}

void Agent::send_again(Connection& connection) {
  outgoing_.push_back({.route = connection.route, .mad = *connection.last_sent});
}

void Agent::send_drep(const Connection& connection, ByteView private_data) {
  send(connection.route, connection.transaction_id,
       Drep{.local_comm_id = connection.id,
            .remote_comm_id = connection.remote_id,
            .private_data = private_area<224>(private_data)});
}

void Agent::send_mra(const Connection& connection, Answered answered) {
  send(connection.route, connection.transaction_id,
       Mra{.local_comm_id = connection.id,
           .remote_comm_id = connection.remote_id,
           .answered = answered,
           .service_timeout = mra_service_timeout});
}

void Agent::send_rej(const Route& route, std::uint64_t transaction_id, CommId id, CommId remote_id,
                     Answered answered, RejectReason reason) {
  Rej rej{.local_comm_id = id, .remote_comm_id = remote_id, .answered = answered, .reason = reason};
  if (reason == RejectReason::timeout) {
    // The peer may not have named itself to us: it finds the connection by our GUID (12.6.7.2).
    boost::endian::big_uint64_buf_t guid{};
    guid = config_.ca_guid;
    write_struct(rej.info, guid);
    rej.info_bytes = sizeof guid;
  }
  send(route, transaction_id, rej);
}

std::optional<Outgoing> Agent::poll_transmit() {
  if (outgoing_.empty()) {
    return std::nullopt;
  }
  Outgoing next = outgoing_.front();
  outgoing_.pop_front();
  return next;
}

std::optional<Event> Agent::poll_event() {
  if (events_.empty()) {
    return std::nullopt;
  }
  const Event next = events_.front();
  events_.pop_front();
  return next;
}

// --- Commands

CommId Agent::connect(Time now, const Route& route, Req req, std::uintptr_t cookie) {
  Connection& connection = create(route);
  connection.cookie = cookie;
  connection.state = State::req_sent;
  connection.transaction_id = new_transaction(connection.id);
  connection.timewait = timeout_of(req.primary.local_ack_timeout);
  connection.answer_time = timeout_of(req.remote_cm_response_timeout) + connection.timewait;
  connection.retries_max = req.max_cm_retries;
  req.local_comm_id = connection.id;
  req.local_ca_guid = config_.ca_guid;
  send_until_answered(now, connection, req);
  return connection.id;
}

void Agent::set_cookie(CommId id, std::uintptr_t cookie) {
  if (Connection* connection = find(id)) {
    connection->cookie = cookie;
  }
}

bool Agent::accept(Time now, CommId id, Rep rep) {
  Connection* connection = find(id);
  if (connection == nullptr || connection->state != State::req_received) {
    return false;
  }
  rep.local_comm_id = id;
  rep.remote_comm_id = connection->remote_id;
  rep.local_ca_guid = config_.ca_guid;
  connection->state = State::rep_sent;
  send_until_answered(now, *connection, rep);
  return true;
}

bool Agent::ready(Time /*now*/, CommId id, const PrivateData<224>& private_data) {
  Connection* connection = find(id);
  if (connection == nullptr || connection->state != State::rep_received) {
    return false;
  }
  connection->state = State::established;
  send(connection->route, connection->transaction_id,
       Rtu{.local_comm_id = id,
           .remote_comm_id = connection->remote_id,
           .private_data = private_data});
  connection->last_sent = outgoing_.back().mad;
  return true;
}

bool Agent::reject(Time /*now*/, CommId id, RejectReason reason, ByteView info,
                   ByteView private_data) {
  Connection* connection = find(id);
  const bool can = connection != nullptr && (connection->state == State::req_received ||
                                             connection->state == State::rep_sent ||
                                             connection->state == State::rep_received);
  if (!can) {
    return false;
  }
  send(connection->route, connection->transaction_id,
       Rej{.local_comm_id = id,
           .remote_comm_id = connection->remote_id,
           .answered = connection->state == State::req_received ? Answered::req : Answered::rep,
           .info_bytes = static_cast<std::uint8_t>(std::min<std::size_t>(info.size(), 72)),
           .reason = reason,
           .info = private_area<72>(info),
           .private_data = private_area<148>(private_data)});
  close(*connection);
  return true;
}

bool Agent::establish(Time /*now*/, CommId id) {
  Connection* connection = find(id);
  if (connection == nullptr || connection->state != State::rep_sent) {
    return false;
  }
  connection->state = State::established;
  set_deadline(*connection, time_never);
  raise(*connection, Event::Kind::established);
  return true;
}

bool Agent::disconnect(Time now, CommId id, ByteView private_data) {
  Connection* connection = find(id);
  if (connection == nullptr) {
    return false;
  }
  if (connection->state == State::established) {
    begin_disconnect(now, *connection, private_data);
    return true;
  }
  if (connection->state == State::dreq_received) {
    send_drep(*connection, private_data);
    enter_timewait(now, *connection);
    return true;
  }
  return false;
}

void Agent::begin_disconnect(Time now, Connection& connection, ByteView private_data) {
  connection.state = State::dreq_sent;
  connection.transaction_id = new_transaction(connection.id);
  forget_remote_qp(connection);
  send_until_answered(now, connection,
                      Dreq{.local_comm_id = connection.id,
                           .remote_comm_id = connection.remote_id,
                           .remote_qpn = connection.remote_qpn,
                           .private_data = private_area<220>(private_data)});
}

CommId Agent::resolve(Time now, const Route& route, SidrReq req, Duration answer_time,
                      std::uint8_t retries_max, std::uintptr_t cookie) {
  Connection& connection = create(route);
  connection.cookie = cookie;
  connection.state = State::sidr_req_sent;
  connection.transaction_id = new_transaction(connection.id);
  connection.answer_time = answer_time;
  connection.retries_max = retries_max;
  req.request_id = connection.id;
  send_until_answered(now, connection, req);
  return connection.id;
}

bool Agent::answer(Time now, CommId id, SidrRep rep) {
  Connection* connection = find(id);
  if (connection == nullptr || connection->state != State::sidr_req_received) {
    return false;
  }
  rep.request_id = connection->remote_id;
  send(connection->route, connection->transaction_id, rep);
  connection->last_sent = outgoing_.back().mad;
  connection->state = State::sidr_answered;
  set_deadline(*connection, now + sidr_memory);
  return true;
}

void Agent::destroy(Time now, CommId id) {
  Connection* connection = find(id);
  if (connection == nullptr) {
    return;
  }
  connection->orphan = true;
  std::erase_if(events_, [&](const Event& each) { return each.id == id; });
  switch (connection->state) {
    case State::req_sent:
      send_rej(connection->route, connection->transaction_id, id, CommId{}, Answered::other,
               RejectReason::timeout);
      break;
    case State::req_received:
    case State::rep_sent:
    case State::rep_received:
      reject(now, id, RejectReason::consumer_defined, {}, {});
      return;  // reject() has erased it.
    case State::established:
    case State::dreq_received:
      disconnect(now, id, {});
      return;  // Until the end of timewait.
    case State::dreq_sent:
    case State::timewait:
    case State::sidr_answered:
      return;
    case State::sidr_req_received:
      answer(now, id, SidrRep{.status = SidrStatus::rejected});
      return;
    case State::sidr_req_sent:
    case State::closed:
      break;
  }
  erase(*connection);
}

void Agent::destroy_all(Time now) {
  std::vector<CommId> all;
  std::ranges::transform(connections_, std::back_inserter(all),
                         [](auto& each) { return each.first; });
  for (const CommId id : all) {
    destroy(now, id);
  }
}

void Agent::lose_peer(Time now, CommId id) {
  Connection* connection = find(id);
  if (connection == nullptr) {
    return;
  }
  switch (connection->state) {
    case State::established:
    case State::dreq_sent:
      enter_timewait(now, *connection);
      raise(*connection, Event::Kind::disconnected);
      break;
    case State::rep_sent:
    case State::rep_received:
      raise(*connection, Event::Kind::unreachable);
      close(*connection);
      break;
    default:
      break;
  }
}

// --- Ends

void Agent::close(Connection& connection) {
  connection.state = State::closed;
  connection.last_sent.reset();
  set_deadline(connection, time_never);
  forget_remote_qp(connection);
  if (connection.orphan) {
    erase(connection);
  }
}

void Agent::enter_timewait(Time now, Connection& connection) {
  connection.state = State::timewait;
  connection.last_sent.reset();
  forget_remote_qp(connection);
  set_deadline(connection, now + connection.timewait);
}

void Agent::on_timer(Time now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Connection& connection = *find(deadlines_.begin()->second);
    set_deadline(connection, time_never);
    on_timeout(now, connection);
  }
}

void Agent::on_timeout(Time now, Connection& connection) {
  if (connection.state == State::timewait) {
    raise(connection, Event::Kind::timewait_exit);
    close(connection);
    return;
  }
  if (connection.state == State::sidr_answered) {
    erase(connection);
    return;
  }
  if (connection.retries_left > 0) {
    --connection.retries_left;
    send_again(connection);
    set_deadline(connection, now + connection.answer_time);
    return;
  }
  if (connection.state == State::dreq_sent) {
    enter_timewait(now, connection);
    raise(connection, Event::Kind::disconnected);
    return;
  }
  if (connection.state != State::sidr_req_sent) {
    // 12.9.8.7: whoever gives up says so.
    send_rej(connection.route, connection.transaction_id, connection.id, connection.remote_id,
             Answered::other, RejectReason::timeout);
  }
  raise(connection, Event::Kind::unreachable);
  close(connection);
}

Time Agent::next_timeout() const {
  return deadlines_.empty() ? time_never : deadlines_.begin()->first;
}

std::vector<Agent::Peer> Agent::peers() const {
  std::vector<Peer> peers;
  for (const auto& [id, connection] : connections_) {
    if (connection.remote_id != CommId{}) {
      peers.push_back({id, connection.remote_id, connection.route.remote});
    }
  }
  return peers;
}

std::size_t Agent::count() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      connections_, [](const auto& each) { return each.second.state != State::closed; }));
}

}  // namespace verbena::ib::cm
