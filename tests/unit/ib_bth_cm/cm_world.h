// Two communication managers in virtual time, and a link between them that loses, repeats and
// delays what a test says.
#pragma once

#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "proto/ib_bth/cm/agent.h"
#include "proto/roce/gid.h"

namespace verbena::test {

using namespace std::chrono_literals;
using ib::cm::Agent;
using ib::cm::AttributeId;
using ib::cm::CommId;
using ib::cm::Event;

inline constexpr ib::cm::ServiceId service{0x0106'1C06};

/// One end: an agent and a consumer that does the usual thing with each event.
struct End {
  End(std::uint8_t prefix, std::uint64_t guid, Gid own, Gid other)
      : agent({.ca_guid = guid, .id_prefix = prefix}, guid), route{.local = own, .remote = other} {}

  Agent agent;
  ib::cm::Route route;
  /// What happened, in order.
  std::vector<Event> events;
  /// Whether it still receives and sends; a dead one is silent.
  bool alive = true;
  bool answers_requests = true;
  bool answers_replies = true;
  bool agrees_to_disconnect = true;
  Qpn next_qpn{0x100};

  [[nodiscard]] std::vector<Event::Kind> kinds() const {
    std::vector<Event::Kind> kinds;
    for (const Event& event : events) {
      kinds.push_back(event.kind);
    }
    return kinds;
  }
  [[nodiscard]] CommId last_id() const { return events.back().id; }
};

class CmWorld {
 public:
  struct Sent {
    bool from_client;
    AttributeId what;
    friend bool operator==(const Sent&, const Sent&) = default;
  };
  /// Decides on the message that is sent as number `index`: when its copies arrive, from now.
  using Link = std::function<std::vector<Duration>(std::size_t index, const Sent&)>;

  CmWorld() { server.agent.listen(1, service, std::nullopt); }

  static inline const Gid client_gid = roce::gid_from_ipv4({{10, 0, 0, 1}});
  static inline const Gid server_gid = roce::gid_from_ipv4({{10, 0, 0, 2}});
  static constexpr Duration delay = 10us;

  End client{1, 0xC, client_gid, server_gid};
  End server{2, 0x5, server_gid, client_gid};
  Time now{};
  std::vector<Sent> log;
  Link link = [](std::size_t, const Sent&) { return std::vector<Duration>{delay}; };

  [[nodiscard]] static ib::cm::Req request() {
    ib::cm::Req req;
    req.service_id = service;
    req.local_qpn = Qpn{0x42};
    req.starting_psn = Psn(7);
    req.remote_cm_response_timeout = 20;
    req.local_cm_response_timeout = 20;
    req.max_cm_retries = 15;
    req.primary.local_ack_timeout = 19;
    return req;
  }
  CommId connect() { return client.agent.connect(now, client.route, request(), 77); }

  /// Until nothing is under way and no timer runs, or `limit` has passed.
  void run(Duration limit = 1h) {
    const Time end = now + limit;
    for (;;) {
      settle(client, true);
      settle(server, false);
      const Time arrival = under_way_.empty() ? time_never : under_way_.begin()->first;
      const Time timeout = std::min(client.alive ? client.agent.next_timeout() : time_never,
                                    server.alive ? server.agent.next_timeout() : time_never);
      const Time next = std::min(arrival, timeout);
      if (next == time_never || next > end) {
        now = std::min(end, next);
        return;
      }
      now = next;
      if (next == arrival) {
        deliver();
      } else {
        fire(client);
        fire(server);
      }
    }
  }

  /// Sends a MAD to an end, as if its peer had.
  ib::cm::MadVerdict inject(End& to, const ib::cm::Message& message) {
    return to.agent.on_mad(now, to.route, ib::cm::emit({.transaction_id = 1, .message = message}));
  }

 private:
  struct Arriving {
    bool to_client;
    ib::cm::Outgoing mad;
  };

  void fire(End& end) {
    if (end.alive) {
      end.agent.on_timer(now);
    }
  }

  void deliver() {
    const Arriving arriving = under_way_.begin()->second;
    under_way_.erase(under_way_.begin());
    End& to = arriving.to_client ? client : server;
    if (!to.alive) {
      return;
    }
    const ib::cm::MadVerdict verdict = to.agent.on_mad(now, to.route, arriving.mad.mad);
    REQUIRE(verdict != ib::cm::MadVerdict::malformed);
    if (verdict == ib::cm::MadVerdict::no_listener) {
      to.agent.refuse(to.route, arriving.mad.mad);
    }
  }

  /// Lets events and messages out.
  void settle(End& end, bool is_client) {
    while (auto event = end.agent.poll_event()) {
      end.events.push_back(*event);
      react(end, *event);
    }
    while (auto out = end.agent.poll_transmit()) {
      if (!end.alive) {
        continue;
      }
      const auto parsed = ib::cm::parse(out->mad);
      REQUIRE(parsed);
      const Sent sent{is_client, ib::cm::attribute_of(parsed->message)};
      for (const Duration after : link(log.size(), sent)) {
        under_way_.emplace(now + after, Arriving{!is_client, *out});
      }
      log.push_back(sent);
    }
  }

  void react(End& end, const Event& event) {
    if (event.kind == Event::Kind::request && end.answers_requests) {
      ib::cm::Rep rep;
      rep.local_qpn = end.next_qpn;
      end.next_qpn = Qpn{to_value(end.next_qpn) + 1};
      end.agent.accept(now, event.id, rep);
    } else if (event.kind == Event::Kind::reply && end.answers_replies) {
      end.agent.ready(now, event.id, {});
    } else if (event.kind == Event::Kind::disconnected && end.agrees_to_disconnect) {
      end.agent.disconnect(now, event.id, {});
    }
  }

  std::multimap<Time, Arriving> under_way_;
};

}  // namespace verbena::test
