#include "sim/scenario/cm_story.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/near_miss.h"
#include "proto/ib_bth/cm/reject_reason.h"
#include "proto/ib_bth/cm/service_id.h"

namespace verbena::sim {
namespace {

using CmEvent = ib::cm::Event;
using ib::cm::RejectReason;

/// Connections have the services of consecutive TCP ports: rping's and up.
constexpr std::uint16_t first_port = 7174;

constexpr std::array<std::string_view, 5> verbs{"listen", "connect", "accept", "reject",
                                                "disconnect"};

constexpr std::array event_names{
    std::pair{CmEvent::Kind::request, std::string_view("request")},
    std::pair{CmEvent::Kind::reply, std::string_view("reply")},
    std::pair{CmEvent::Kind::established, std::string_view("established")},
    std::pair{CmEvent::Kind::rejected, std::string_view("rejected")},
    std::pair{CmEvent::Kind::unreachable, std::string_view("unreachable")},
    std::pair{CmEvent::Kind::disconnected, std::string_view("disconnected")},
    std::pair{CmEvent::Kind::timewait_exit, std::string_view("timewait_exit")},
};

constexpr std::array reason_names{
#define VERBENA_X(identifier, code, words) \
  std::pair{RejectReason::identifier, std::string_view(#identifier)},
    VERBENA_REJECT_REASONS(VERBENA_X)
#undef VERBENA_X
};

template <class Names, class Key>
std::string_view name_in(const Names& names, Key key) {
  const auto found = std::ranges::find(names, key, &Names::value_type::first);
  return found == names.end() ? "unknown" : found->second;
}

RejectReason reason_of(const Word& word) {
  const auto* const found = std::ranges::find(
      reason_names, word.text, [](const auto& pair) { return std::string(pair.second); });
  if (found == reason_names.end()) {
    std::vector<std::string_view> known;
    std::ranges::transform(reason_names, std::back_inserter(known),
                           [](const auto& pair) { return pair.second; });
    fail(word,
         fmt::format("'{}' is no reason to reject.{}", word.text, did_you_mean(word.text, known)));
  }
  return found->first;
}

ib::cm::ServiceId service_of(std::size_t connection) {
  return ib::cm::service_id_of(ib::cm::PortSpace::tcp,
                               static_cast<std::uint16_t>(first_port + connection));
}

std::string text_of(const CmEvent& event) {
  std::string text(name_in(event_names, event.kind));
  if (event.kind == CmEvent::Kind::rejected) {
    text += ' ';
    text += name_in(reason_names, std::get<ib::cm::Rej>(*event.message).reason);
  }
  return text;
}

}  // namespace

CmStory::CmStory(Stage& stage)
    : stage_(stage), ends_(stage.connections().size()), heard_(stage.hosts().size()) {
  hosts_.resize(stage.hosts().size());
  for (const Connection& connection : stage.connections()) {
    for (const End& end : connection.ends) {
      Node* const node = stage.hosts()[end.host].node;
      if (!connection.spec->uses_cm || node == nullptr || hosts_[end.host] != nullptr) {
        continue;
      }
      hosts_[end.host] =
          std::make_unique<CmHost>(*node, stage.simulation().seed() + to_value(node->id()));
      hosts_[end.host]->set_application(this);
    }
  }
}

bool CmStory::is_verb(std::string_view verb) {
  return std::ranges::find(verbs, verb) != verbs.end();
}

CmStory::Found CmStory::connection_of(std::size_t host, const std::optional<Word>& via,
                                      Place place) {
  const Connection& connection = stage_.connection(host, via, place);
  if (!connection.spec->uses_cm) {
    fail(place, "The connection is there from the beginning: made_by = \"cm\" says otherwise.");
  }
  return {.connection = static_cast<std::size_t>(&connection - stage_.connections().data()),
          .side = connection.ends[0].host == host ? std::size_t{0} : 1};
}

ib::cm::Agent& CmStory::agent_of(const Found& at) const {
  return hosts_[stage_.connections()[at.connection].ends[at.side].host]->agent();
}

void CmStory::run_step(Line& line, std::size_t host, const Word& verb) {
  const auto via = line.take("via");
  if (verb.text == "listen") {
    listen(connection_of(host, via, line.place()));
    return;
  }
  const Found at = connection_of(host, via, line.place());
  const Time now = stage_.simulation().now();
  bool done = true;
  if (verb.text == "connect") {
    connect(at);
  } else if (verb.text == "accept") {
    done = accept(at);
  } else if (verb.text == "reject") {
    done = agent_of(at).reject(now, end_of(at).id, reason_of(line.next("a reason")), {}, {});
  } else {
    fail_qp(at);
    done = agent_of(at).disconnect(now, end_of(at).id, {});
  }
  if (!done) {
    fail(verb, "The connection's state doesn't permit this.");
  }
}

void CmStory::listen(const Found& at) const {
  agent_of(at).listen(at.connection, service_of(at.connection), std::nullopt);
}

ib::cm::Req CmStory::request_of(const Found& at) const {
  const Connection& connection = stage_.connections()[at.connection];
  const ConnectionSpec& spec = *connection.spec;
  const End& end = connection.ends[at.side];
  ib::cm::Req req;
  req.service_id = service_of(at.connection);
  req.local_qpn = end.qpn;
  req.transport =
      spec.service == ib::Service::uc ? ib::cm::TransportType::uc : ib::cm::TransportType::rc;
  req.starting_psn = connection.ends[1 - at.side].first_psn;
  req.responder_resources = spec.rd_atomic;
  req.initiator_depth = spec.rd_atomic;
  req.remote_cm_response_timeout = spec.cm_timeout;
  req.local_cm_response_timeout = spec.cm_timeout;
  req.retry_count = spec.retry_cnt;
  req.rnr_retry_count = spec.rnr_retry;
  req.max_cm_retries = spec.cm_retries;
  req.pkey = pkey_default;
  req.path_mtu = static_cast<std::uint8_t>(spec.mtu);
  req.primary.local_gid = stage_.hosts()[end.host].spec->gid;
  req.primary.remote_gid = stage_.hosts()[connection.ends[1 - at.side].host].spec->gid;
  req.primary.local_ack_timeout = spec.timeout;
  return req;
}

void CmStory::connect(const Found& at) {
  const ib::cm::Req req = request_of(at);
  const ib::cm::Route route{.local = req.primary.local_gid, .remote = req.primary.remote_gid};
  end_of(at).id = agent_of(at).connect(stage_.simulation().now(), route, req, at.connection);
}

bool CmStory::accept(const Found& at) {
  const CmEnd& end = end_of(at);
  if (!end.req) {
    return false;
  }
  Connection& connection = stage_.connections()[at.connection];
  stage_.make_ready(connection, at.side, end.req->local_qpn, end.req->starting_psn);
  ib::cm::Rep rep;
  rep.local_qpn = connection.ends[at.side].qpn;
  rep.starting_psn = connection.ends[1 - at.side].first_psn;
  rep.responder_resources = end.req->initiator_depth;
  rep.initiator_depth = end.req->responder_resources;
  rep.rnr_retry_count = connection.spec->rnr_retry;
  return agent_of(at).accept(stage_.simulation().now(), end.id, rep);
}

bool CmStory::has_heard(std::size_t host, const Word& name) const {
  if (std::ranges::find(event_names, name.text, [](const auto& pair) {
        return std::string(pair.second);
      }) == event_names.end()) {
    fail(name, fmt::format("'{}' is neither the ID of a work request nor an event of a connection.",
                           name.text));
  }
  return std::ranges::any_of(heard_[host], [&](const Heard& heard) {
    return heard.what.substr(0, heard.what.find(' ')) == name.text;
  });
}

void CmStory::on_cm_event(Node& node, const CmEvent& event) {
  Simulation& simulation = stage_.simulation();
  const auto host = static_cast<std::size_t>(to_value(node.id()));
  simulation.trace().add(simulation.now(), TraceKind::event, node.id(), text_of(event));
  heard_[host].push_back({text_of(event), simulation.trace().events().size() - 1});
  const auto connection = static_cast<std::size_t>(event.cookie);
  const std::size_t side = stage_.connections()[connection].ends[0].host == host ? 0 : 1;
  act_on({.connection = connection, .side = side}, event);
}

void CmStory::act_on(const Found& at, const CmEvent& event) {
  const ConnectionSpec& spec = *stage_.connections()[at.connection].spec;
  switch (event.kind) {
    case CmEvent::Kind::request:
      end_of(at) = {.id = event.id, .req = std::get<ib::cm::Req>(*event.message)};
      if (!spec.story_answers) {
        static_cast<void>(accept(at));
      }
      return;
    case CmEvent::Kind::reply:
      on_reply(at, std::get<ib::cm::Rep>(*event.message));
      return;
    case CmEvent::Kind::rejected:
    case CmEvent::Kind::unreachable:
      fail_qp(at);
      return;
    case CmEvent::Kind::disconnected:
      fail_qp(at);
      // Who has begun it himself has nothing to agree to.
      static_cast<void>(agent_of(at).disconnect(stage_.simulation().now(), event.id, {}));
      return;
    case CmEvent::Kind::established:
    case CmEvent::Kind::timewait_exit:
    case CmEvent::Kind::sidr_request:
    case CmEvent::Kind::sidr_reply:
      return;
  }
}

void CmStory::on_reply(const Found& at, const ib::cm::Rep& rep) {
  stage_.make_ready(stage_.connections()[at.connection], at.side, rep.queue_pair(),
                    rep.starting_psn);
  static_cast<void>(agent_of(at).ready(stage_.simulation().now(), end_of(at).id, {}));
}

void CmStory::fail_qp(const Found& at) {
  const End& end = stage_.connections()[at.connection].ends[at.side];
  if (end.qp != nullptr) {
    stage_.make_fail(end);
  }
}

}  // namespace verbena::sim
