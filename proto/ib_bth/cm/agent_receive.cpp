// What the agent makes of each message.

#include "proto/ib_bth/cm/agent.h"
#include "proto/ib_bth/cm/connection.h"

namespace verbena::ib::cm {

MadVerdict Agent::on_mad(Time now, const Route& route, ByteView mad) {
  const auto envelope = parse(mad);
  if (!envelope) {
    return MadVerdict::malformed;
  }
  struct Dispatch {
    Agent& agent;
    Time now;
    const Route& route;
    const Envelope& envelope;

    MadVerdict operator()(const Req& req) { return agent.on_req(now, route, envelope, req); }
    MadVerdict operator()(const Mra& mra) { return agent.on_mra(now, mra); }
    MadVerdict operator()(const Rej& rej) { return agent.on_rej(now, route, rej); }
    MadVerdict operator()(const Rep& rep) { return agent.on_rep(now, route, envelope, rep); }
    MadVerdict operator()(const Rtu& rtu) { return agent.on_rtu(now, rtu); }
    MadVerdict operator()(const Dreq& dreq) { return agent.on_dreq(now, route, envelope, dreq); }
    MadVerdict operator()(const Drep& drep) { return agent.on_drep(now, drep); }
    MadVerdict operator()(const SidrReq& req) {
      return agent.on_sidr_req(now, route, envelope, req);
    }
    MadVerdict operator()(const SidrRep& rep) { return agent.on_sidr_rep(now, rep); }
    MadVerdict operator()(const Lap& lap) { return agent.on_lap(route, envelope, lap); }
    /// We never send a LAP.
    MadVerdict operator()(const Apr& apr) {
      return agent.is_own(apr.remote_comm_id) ? MadVerdict::unexpected : MadVerdict::not_ours;
    }
  };
  return std::visit(Dispatch{*this, now, route, *envelope}, envelope->message);
}

void Agent::refuse(const Route& route, ByteView mad) {
  const auto envelope = parse(mad);
  if (!envelope) {
    return;
  }
  if (const auto* req = std::get_if<Req>(&envelope->message)) {
    send_rej(route, envelope->transaction_id, CommId{}, req->local_comm_id, Answered::req,
             RejectReason::invalid_service_id);
  } else if (const auto* sidr = std::get_if<SidrReq>(&envelope->message)) {
    send(route, envelope->transaction_id,
         SidrRep{.request_id = sidr->request_id,
                 .status = SidrStatus::unsupported,
                 .service_id = sidr->service_id});
  }
}

MadVerdict Agent::on_req(Time now, const Route& route, const Envelope& envelope, const Req& req) {
  const RemoteKey key{route.remote, req.local_ca_guid, req.local_comm_id};
  if (const auto known = by_remote_.find(key); known != by_remote_.end()) {
    Connection& connection = *find(known->second);
    if (connection.state != State::closed) {
      return on_duplicate_req(connection);
    }
  }
  const Listener* listener = listener_for(req.service_id, route.local);
  if (listener == nullptr) {
    return MadVerdict::no_listener;
  }
  const auto refuse_with = [&](RejectReason reason) {
    send_rej(route, envelope.transaction_id, CommId{}, req.local_comm_id, Answered::req, reason);
    return MadVerdict::unexpected;
  };
  if (req.transport != TransportType::rc && req.transport != TransportType::uc && !req.is_xrc()) {
    return refuse_with(RejectReason::invalid_transport_type);
  }
  Connection& connection = create(route);
  if (Connection* stale = claim_remote_qp(connection, req.local_ca_guid, req.local_qpn)) {
    erase(connection);
    const MadVerdict verdict = refuse_with(RejectReason::stale_connection);
    end_stale(now, *stale);
    return verdict;
  }
  connection.cookie = listener->cookie;
  connection.state = State::req_received;
  connection.transaction_id = envelope.transaction_id;
  connection.remote_id = req.local_comm_id;
  connection.timewait = timeout_of(req.primary.local_ack_timeout);
  connection.answer_time = timeout_of(req.local_cm_response_timeout) + connection.timewait;
  connection.retries_max = req.max_cm_retries;
  by_remote_[key] = connection.id;
  raise(connection, Event::Kind::request, envelope.message);
  return MadVerdict::accepted;
}

MadVerdict Agent::on_duplicate_req(Connection& connection) {
  if (connection.state == State::req_received) {
    send_mra(connection, Answered::req);
  } else if (connection.state == State::rep_sent) {
    send_again(connection);
  }
  return MadVerdict::duplicate;
}

MadVerdict Agent::on_mra(Time now, const Mra& mra) {
  Connection* connection = find(mra.remote_comm_id);
  if (connection == nullptr) {
    return is_own(mra.remote_comm_id) ? MadVerdict::unexpected : MadVerdict::not_ours;
  }
  const bool answers = (mra.answered == Answered::req && connection->state == State::req_sent) ||
                       (mra.answered == Answered::rep && connection->state == State::rep_sent);
  if (!answers) {
    return MadVerdict::unexpected;
  }
  // Patience, for as long as the peer asks, and no retry is used up (12.9.8.6).
  set_deadline(*connection, now + timeout_of(mra.service_timeout) + connection->timewait);
  return MadVerdict::accepted;
}

MadVerdict Agent::on_rej(Time now, const Route& route, const Rej& rej) {
  Connection* connection = find(rej.remote_comm_id);
  if (connection == nullptr && rej.reason == RejectReason::timeout) {
    // From somebody to whom we have not named ourselves, or whom our REP didn't reach.
    const auto guid = read_struct<boost::endian::big_uint64_buf_t>(rej.info).value();
    const auto known = by_remote_.find(RemoteKey{route.remote, guid, rej.local_comm_id});
    connection = known == by_remote_.end() ? nullptr : find(known->second);
  }
  if (connection == nullptr) {
    const bool ours = rej.remote_comm_id != CommId{} && is_own(rej.remote_comm_id);
    return ours ? MadVerdict::unexpected : MadVerdict::not_ours;
  }
  switch (connection->state) {
    case State::req_sent:
    case State::req_received:
    case State::rep_sent:
    case State::rep_received:
      raise(*connection, Event::Kind::rejected, rej);
      close(*connection);
      return MadVerdict::accepted;
    case State::established:
    case State::dreq_sent:
      // The peer knows nothing of the connection, so it is over.
      enter_timewait(now, *connection);
      raise(*connection, Event::Kind::disconnected);
      return MadVerdict::accepted;
    default:
      return MadVerdict::duplicate;
  }
}

MadVerdict Agent::on_rep(Time now, const Route& route, const Envelope& envelope, const Rep& rep) {
  Connection* connection = find(rep.remote_comm_id);
  if (connection == nullptr || connection->state == State::closed) {
    if (!is_own(rep.remote_comm_id)) {
      return MadVerdict::not_ours;
    }
    send_rej(route, envelope.transaction_id, rep.remote_comm_id, rep.local_comm_id, Answered::rep,
             RejectReason::invalid_comm_id);
    return MadVerdict::unexpected;
  }
  if (connection->state == State::req_sent) {
    connection->remote_id = rep.local_comm_id;
    set_deadline(*connection, time_never);
    if (Connection* stale = claim_remote_qp(*connection, rep.local_ca_guid, rep.queue_pair())) {
      send_rej(route, envelope.transaction_id, connection->id, rep.local_comm_id, Answered::rep,
               RejectReason::stale_connection);
      raise(*connection, Event::Kind::rejected, Rej{.reason = RejectReason::stale_connection});
      close(*connection);
      end_stale(now, *stale);
      return MadVerdict::unexpected;
    }
    connection->state = State::rep_received;
    raise(*connection, Event::Kind::reply, rep);
    return MadVerdict::accepted;
  }
  if (connection->remote_id != rep.local_comm_id) {
    return MadVerdict::unexpected;
  }
  if (connection->state == State::rep_received) {
    send_mra(*connection, Answered::rep);
  } else if (connection->state == State::established && connection->last_sent) {
    send_again(*connection);
  }
  return MadVerdict::duplicate;
}

MadVerdict Agent::on_rtu(Time /*now*/, const Rtu& rtu) {
  Connection* connection = find(rtu.remote_comm_id, rtu.local_comm_id);
  if (connection == nullptr) {
    return is_own(rtu.remote_comm_id) ? MadVerdict::unexpected : MadVerdict::not_ours;
  }
  if (connection->state != State::rep_sent) {
    return MadVerdict::duplicate;
  }
  connection->state = State::established;
  connection->last_sent.reset();
  set_deadline(*connection, time_never);
  raise(*connection, Event::Kind::established, rtu);
  return MadVerdict::accepted;
}

MadVerdict Agent::on_dreq(Time now, const Route& route, const Envelope& envelope,
                          const Dreq& dreq) {
  Connection* connection = find(dreq.remote_comm_id, dreq.local_comm_id);
  if (connection == nullptr) {
    if (!is_own(dreq.remote_comm_id)) {
      return MadVerdict::not_ours;
    }
    // Whatever it was, it is over: the peer needn't ask again.
    send(route, envelope.transaction_id,
         Drep{.local_comm_id = dreq.remote_comm_id, .remote_comm_id = dreq.local_comm_id});
    return MadVerdict::unexpected;
  }
  switch (connection->state) {
    case State::rep_sent:
    case State::rep_received:
    case State::established:
      connection->state = State::dreq_received;
      connection->transaction_id = envelope.transaction_id;
      connection->last_sent.reset();
      set_deadline(*connection, time_never);
      forget_remote_qp(*connection);
      raise(*connection, Event::Kind::disconnected, dreq);
      return MadVerdict::accepted;
    case State::dreq_sent:
      // Both at the same time: each answers the other.
      connection->transaction_id = envelope.transaction_id;
      send_drep(*connection, {});
      enter_timewait(now, *connection);
      raise(*connection, Event::Kind::disconnected, dreq);
      return MadVerdict::accepted;
    case State::timewait:
    case State::closed:
      connection->transaction_id = envelope.transaction_id;
      send_drep(*connection, {});
      return MadVerdict::duplicate;
    default:
      return MadVerdict::duplicate;
  }
}

MadVerdict Agent::on_drep(Time now, const Drep& drep) {
  Connection* connection = find(drep.remote_comm_id, drep.local_comm_id);
  if (connection == nullptr) {
    return is_own(drep.remote_comm_id) ? MadVerdict::unexpected : MadVerdict::not_ours;
  }
  if (connection->state != State::dreq_sent) {
    return MadVerdict::duplicate;
  }
  enter_timewait(now, *connection);
  raise(*connection, Event::Kind::disconnected);
  return MadVerdict::accepted;
}

MadVerdict Agent::on_lap(const Route& route, const Envelope& envelope, const Lap& lap) {
  if (!is_own(lap.remote_comm_id)) {
    return MadVerdict::not_ours;
  }
  const bool known = find(lap.remote_comm_id, lap.local_comm_id) != nullptr;
  send(route, envelope.transaction_id,
       Apr{.local_comm_id = lap.remote_comm_id,
           .remote_comm_id = lap.local_comm_id,
           .status = known ? AprStatus::not_supported : AprStatus::invalid_comm_id});
  return known ? MadVerdict::accepted : MadVerdict::unexpected;
}

MadVerdict Agent::on_sidr_req(Time /*now*/, const Route& route, const Envelope& envelope,
                              const SidrReq& req) {
  // A SIDR_REQ doesn't carry its sender's GUID.
  const RemoteKey key{route.remote, 0, req.request_id};
  if (const auto known = by_remote_.find(key); known != by_remote_.end()) {
    Connection& connection = *find(known->second);
    if (connection.state == State::sidr_answered) {
      send_again(connection);
    }
    return MadVerdict::duplicate;
  }
  const Listener* listener = listener_for(req.service_id, route.local);
  if (listener == nullptr) {
    return MadVerdict::no_listener;
  }
  Connection& connection = create(route);
  connection.cookie = listener->cookie;
  connection.state = State::sidr_req_received;
  connection.transaction_id = envelope.transaction_id;
  connection.remote_id = req.request_id;
  by_remote_[key] = connection.id;
  raise(connection, Event::Kind::sidr_request, req);
  return MadVerdict::accepted;
}

MadVerdict Agent::on_sidr_rep(Time /*now*/, const SidrRep& rep) {
  Connection* connection = find(rep.request_id);
  if (connection == nullptr) {
    return is_own(rep.request_id) ? MadVerdict::unexpected : MadVerdict::not_ours;
  }
  if (connection->state != State::sidr_req_sent) {
    return MadVerdict::duplicate;
  }
  raise(*connection, Event::Kind::sidr_reply, rep);
  close(*connection);
  return MadVerdict::accepted;
}

}  // namespace verbena::ib::cm
