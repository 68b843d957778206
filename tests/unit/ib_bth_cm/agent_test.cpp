// The communication manager's state machine in virtual time: whatever is lost, repeated or late,
// whoever dies, each end hears exactly what happened, and nothing is left in the end.

#include "proto/ib_bth/cm/agent.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/ib_bth_cm/cm_world.h"

using namespace verbena;
using namespace verbena::ib::cm;
using namespace verbena::test;
using Kind = Event::Kind;
using Kinds = std::vector<Kind>;

namespace {

/// Connects, waits, disconnects from the client's side, and waits until all is over.
void connect_and_disconnect(CmWorld& world) {
  const CommId id = world.connect();
  world.run(200s);
  world.client.agent.disconnect(world.now, id, {});
  world.run();
}

void check_clean_story(CmWorld& world) {
  CHECK(world.client.kinds() == Kinds{Kind::reply, Kind::disconnected, Kind::timewait_exit});
  CHECK(world.server.kinds() ==
        Kinds{Kind::request, Kind::established, Kind::disconnected, Kind::timewait_exit});
  CHECK(world.client.agent.count() == 0);
  CHECK(world.server.agent.count() == 0);
}

constexpr std::size_t story_messages = 5;

}  // namespace

TEST_CASE("A connection is made with three messages and ended with two") {
  CmWorld world;
  connect_and_disconnect(world);
  check_clean_story(world);
  const std::vector<CmWorld::Sent> expected = {{true, AttributeId::req},
                                               {false, AttributeId::rep},
                                               {true, AttributeId::rtu},
                                               {true, AttributeId::dreq},
                                               {false, AttributeId::drep}};
  CHECK(world.log == expected);
  CHECK(world.client.events[0].cookie == 77);
  CHECK(world.server.events[0].cookie == 1);
  const auto& req = std::get<Req>(*world.server.events[0].message);
  CHECK(req.local_ca_guid == 0xC);
  CHECK(req.local_comm_id == world.client.events[0].id);
}

TEST_CASE("XRC initiators are answered, other extended transports refused") {
  for (const std::uint8_t extended : {extended_transport_xrc, std::uint8_t{2}}) {
    CmWorld world;
    Req req = CmWorld::request();
    req.transport = TransportType::extended;
    req.extended_transport = extended;
    world.client.agent.connect(world.now, world.client.route, req, 77);
    world.run(1s);
    REQUIRE_FALSE(world.client.events.empty());
    const Event& answer = world.client.events.front();
    if (req.is_xrc()) {
      CHECK(answer.kind == Kind::reply);
    } else {
      REQUIRE(answer.kind == Kind::rejected);
      CHECK(std::get<Rej>(*answer.message).reason == RejectReason::invalid_transport_type);
    }
  }
}

TEST_CASE("Every message may be lost once") {
  for (std::size_t lost = 0; lost < story_messages; ++lost) {
    INFO("message " << lost);
    CmWorld world;
    world.link = [&](std::size_t index, const CmWorld::Sent&) {
      return index == lost ? std::vector<Duration>{} : std::vector<Duration>{CmWorld::delay};
    };
    connect_and_disconnect(world);
    check_clean_story(world);
    CHECK(world.log.size() > story_messages);
  }
}

TEST_CASE("Every message may be repeated, at once or late") {
  for (std::size_t repeated = 0; repeated < story_messages; ++repeated) {
    for (const Duration after : {Duration(20us), Duration(1ms), Duration(5s), Duration(100s)}) {
      INFO("message " << repeated << " again after " << after.count() << " ns");
      CmWorld world;
      world.link = [&](std::size_t index, const CmWorld::Sent&) {
        return index == repeated ? std::vector<Duration>{CmWorld::delay, after}
                                 : std::vector<Duration>{CmWorld::delay};
      };
      connect_and_disconnect(world);
      check_clean_story(world);
    }
  }
}

TEST_CASE("Every message may be late, later than it is sent again") {
  for (std::size_t late = 0; late < story_messages; ++late) {
    for (const Duration after : {Duration(1s), Duration(7s), Duration(20s)}) {
      INFO("message " << late << " after " << after.count() << " ns");
      CmWorld world;
      world.link = [&](std::size_t index, const CmWorld::Sent&) {
        return std::vector<Duration>{index == late ? after : CmWorld::delay};
      };
      connect_and_disconnect(world);
      check_clean_story(world);
    }
  }
}

TEST_CASE("Many losses, repetitions and delays at once end well, too") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    Prng prng(seed);
    CmWorld world;
    world.link = [&](std::size_t, const CmWorld::Sent&) {
      std::vector<Duration> copies;
      for (std::uint64_t i = prng.below(3); i > 0; --i) {
        copies.push_back(Duration(static_cast<std::int64_t>(1 + prng.below(3'000'000'000))));
      }
      return copies;
    };
    connect_and_disconnect(world);
    // Only the RTU may be missed altogether: then the DREQ comes first.
    CHECK(world.client.kinds() == Kinds{Kind::reply, Kind::disconnected, Kind::timewait_exit});
    REQUIRE(world.server.kinds().size() >= 3);
    CHECK(world.server.kinds().front() == Kind::request);
    CHECK(world.server.kinds().back() == Kind::timewait_exit);
    CHECK(world.client.agent.count() == 0);
    CHECK(world.server.agent.count() == 0);
  }
}

TEST_CASE("A program's refusal arrives with its reason and data") {
  CmWorld world;
  world.server.answers_requests = false;
  world.connect();
  world.run(1s);
  const std::byte why[] = {std::byte{'n'}, std::byte{'o'}};
  REQUIRE(world.server.agent.reject(world.now, world.server.last_id(),
                                    RejectReason::consumer_defined, {}, why));
  world.run();
  REQUIRE(world.client.kinds() == Kinds{Kind::rejected});
  const auto& rej = std::get<Rej>(*world.client.events[0].message);
  CHECK(rej.reason == RejectReason::consumer_defined);
  CHECK(rej.answered == Answered::req);
  CHECK(rej.private_data[1] == std::byte{'o'});
  CHECK(world.client.agent.count() == 0);
  CHECK(world.server.agent.count() == 0);
}

TEST_CASE("The active side may refuse the reply") {
  CmWorld world;
  world.client.answers_replies = false;
  const CommId id = world.connect();
  world.run(1s);
  REQUIRE(world.client.agent.reject(world.now, id, RejectReason::consumer_defined, {}, {}));
  world.run();
  CHECK(world.server.kinds() == Kinds{Kind::request, Kind::rejected});
  CHECK(std::get<Rej>(*world.server.events[1].message).answered == Answered::rep);
}

TEST_CASE("Nobody listens: REJ 8") {
  CmWorld world;
  world.server.agent.unlisten(1);
  world.connect();
  world.run();
  REQUIRE(world.client.kinds() == Kinds{Kind::rejected});
  CHECK(std::get<Rej>(*world.client.events[0].message).reason == RejectReason::invalid_service_id);
}

TEST_CASE("A listener on an address comes before one on any") {
  CmWorld world;
  world.server.agent.listen(2, service, CmWorld::server_gid);
  world.server.agent.listen(3, service, CmWorld::client_gid);
  world.connect();
  world.run(1s);
  CHECK(world.server.events.at(0).cookie == 2);
  world.server.agent.unlisten(2);
  Req again = CmWorld::request();
  again.local_qpn = Qpn{0x43};
  world.client.agent.connect(world.now, world.client.route, again, 78);
  world.run(1s);
  CHECK(world.server.events.back().cookie == 1);
}

TEST_CASE("A peer that dies is noticed at every step") {
  // The server falls silent after so many messages.
  for (std::size_t after = 0; after <= 4; ++after) {
    INFO("dead after message " << after);
    CmWorld world;
    world.link = [&](std::size_t index, const CmWorld::Sent& sent) {
      world.server.alive = world.server.alive && index < after;
      return world.server.alive || sent.from_client ? std::vector<Duration>{CmWorld::delay}
                                                    : std::vector<Duration>{};
    };
    const Time start = world.now;
    const CommId id = world.connect();
    world.run(200s);
    if (after < 2) {
      // 15 retries, each after 4.3 s and twice the packet lifetime.
      CHECK(world.client.kinds() == Kinds{Kind::unreachable});
      CHECK(world.log.size() == 1 + 15 + 1 + (after > 0 ? 1 : 0));
      CHECK(world.now - start > 16 * 6s);
    } else {
      world.client.agent.disconnect(world.now, id, {});
      world.run();
      CHECK(world.client.kinds() == Kinds{Kind::reply, Kind::disconnected, Kind::timewait_exit});
    }
    CHECK(world.client.agent.count() == 0);
  }
}

TEST_CASE("A client that dies before its RTU is noticed") {
  CmWorld world;
  world.link = [&](std::size_t index, const CmWorld::Sent&) {
    world.client.alive = world.client.alive && index < 1;
    return std::vector<Duration>{CmWorld::delay};
  };
  world.connect();
  world.run();
  CHECK(world.server.kinds() == Kinds{Kind::request, Kind::unreachable});
  CHECK(world.server.agent.count() == 0);
}

TEST_CASE("Who has little patience asks as often, but sooner") {
  Agent agent({.ca_guid = 0xA, .id_prefix = 3, .patience_max = 8s}, 1);
  const Time start{};
  agent.connect(start, {.local = CmWorld::client_gid, .remote = CmWorld::server_gid},
                CmWorld::request(), 77);
  int sent = 0;
  Time now = start;
  while (agent.next_timeout() != time_never) {
    now = agent.next_timeout();
    agent.on_timer(now);
  }
  while (const auto outgoing = agent.poll_transmit()) {
    sent += std::holds_alternative<Req>(parse(outgoing->mad)->message) ? 1 : 0;
  }
  CHECK(sent == 16);
  CHECK(now - start == 8s);
  CHECK(agent.poll_event()->kind == Event::Kind::unreachable);
}

TEST_CASE("A peer that is known to be dead needs no retries") {
  CmWorld world;
  const CommId id = world.connect();
  world.run(1s);
  world.server.alive = false;
  REQUIRE(world.client.agent.peers().size() == 1);
  CHECK(world.client.agent.peers()[0].remote_id == world.server.events[0].id);
  world.client.agent.lose_peer(world.now, id);
  world.run();
  CHECK(world.client.kinds() == Kinds{Kind::reply, Kind::disconnected, Kind::timewait_exit});
}

TEST_CASE("A slow program is waited for: MRA") {
  CmWorld world;
  world.server.answers_requests = false;
  world.connect();
  world.run(60s);
  // The first REQ, one more, the MRA that asks for 69 s, and silence.
  const std::vector<CmWorld::Sent> expected = {
      {true, AttributeId::req}, {true, AttributeId::req}, {false, AttributeId::mra}};
  CHECK(world.log == expected);
  world.server.agent.accept(world.now, world.server.last_id(), Rep{.local_qpn = Qpn{9}});
  world.run(1s);
  CHECK(world.client.kinds() == Kinds{Kind::reply});
  CHECK(world.server.kinds() == Kinds{Kind::request, Kind::established});
}

TEST_CASE("A slow active side is waited for as well") {
  CmWorld world;
  world.client.answers_replies = false;
  const CommId id = world.connect();
  world.run(30s);
  const std::vector<CmWorld::Sent> expected = {{true, AttributeId::req},
                                               {false, AttributeId::rep},
                                               {false, AttributeId::rep},
                                               {true, AttributeId::mra}};
  CHECK(world.log == expected);
  world.client.agent.ready(world.now, id, {});
  world.run(1s);
  CHECK(world.server.kinds() == Kinds{Kind::request, Kind::established});
}

TEST_CASE("Both may disconnect at the same time") {
  CmWorld world;
  const CommId id = world.connect();
  world.run(1s);
  world.client.agent.disconnect(world.now, id, {});
  world.server.agent.disconnect(world.now, world.server.last_id(), {});
  world.run();
  check_clean_story(world);
}

TEST_CASE("The passive side may disconnect") {
  CmWorld world;
  world.connect();
  world.run(1s);
  world.server.agent.disconnect(world.now, world.server.last_id(), {});
  world.run();
  check_clean_story(world);
}

TEST_CASE("The first packet counts as the RTU") {
  CmWorld world;
  world.link = [](std::size_t, const CmWorld::Sent& sent) {
    return sent.what == AttributeId::rtu ? std::vector<Duration>{Duration(1s)}
                                         : std::vector<Duration>{CmWorld::delay};
  };
  world.connect();
  world.run(1ms);
  REQUIRE(world.server.agent.establish(world.now, world.server.last_id()));
  CHECK_FALSE(world.server.agent.establish(world.now, world.server.last_id()));
  world.run(10s);
  CHECK(world.server.kinds() == Kinds{Kind::request, Kind::established});
}

TEST_CASE("A connected queue pair that asks again is a stale connection") {
  CmWorld world;
  world.connect();
  world.run(1s);
  // The client has lost its memory: same queue pair, another communication ID.
  world.connect();
  world.run();
  CHECK(world.client.kinds() ==
        Kinds{Kind::reply, Kind::rejected, Kind::disconnected, Kind::timewait_exit});
  CHECK(std::get<Rej>(*world.client.events[1].message).reason == RejectReason::stale_connection);
  CHECK(world.server.kinds() ==
        Kinds{Kind::request, Kind::established, Kind::disconnected, Kind::timewait_exit});
}

TEST_CASE("A queue pair may connect again at once after it has disconnected") {
  CmWorld world;
  const CommId first = world.connect();
  world.run(1s);
  world.client.agent.disconnect(world.now, first, {});
  world.run(1s);
  world.connect();
  world.run(1s);
  CHECK(world.client.events.back().kind == Kind::reply);
}

TEST_CASE("Whenever a consumer destroys its end, the peer hears of it and nothing is left") {
  for (std::size_t messages = 1; messages <= 6; ++messages) {
    for (const bool client_destroys : {true, false}) {
      INFO("after message " << messages << ", " << client_destroys);
      CmWorld world;
      End& destroyer = client_destroys ? world.client : world.server;
      End& other = client_destroys ? world.server : world.client;
      std::size_t arrived = 0;
      world.link = [&](std::size_t, const CmWorld::Sent&) {
        ++arrived;
        return std::vector<Duration>{CmWorld::delay};
      };
      CommId id = world.connect();
      bool disconnected = false;
      for (int step = 0; step < 10000 && arrived < messages; ++step) {
        world.run(CmWorld::delay);
        if (arrived >= 3 && messages > 3 && !disconnected) {
          disconnected = true;
          world.client.agent.disconnect(world.now, id, {});
        }
      }
      if (!client_destroys) {
        if (world.server.events.empty()) {
          continue;
        }
        id = world.server.events[0].id;
      }
      destroyer.agent.destroy(world.now, id);
      const std::size_t heard = destroyer.events.size();
      world.run();
      CHECK(destroyer.events.size() == heard);
      CHECK(destroyer.agent.count() == 0);
      CHECK(other.agent.count() == 0);
    }
  }
}

TEST_CASE("Who ends with many connections tells all peers") {
  CmWorld world;
  for (int i = 0; i < 3; ++i) {
    Req req = CmWorld::request();
    req.local_qpn = Qpn{0x50 + static_cast<std::uint32_t>(i)};
    world.client.agent.connect(world.now, world.client.route, req, 77);
  }
  world.run(1s);
  world.client.agent.destroy_all(world.now);
  world.run();
  CHECK(std::ranges::count(world.server.kinds(), Kind::disconnected) == 3);
  CHECK(world.client.agent.count() == 0);
  CHECK(world.server.agent.count() == 0);
}

TEST_CASE("An alternate path is declined") {
  CmWorld world;
  const CommId id = world.connect();
  world.run(1s);
  const CommId peer = world.server.events[0].id;
  CHECK(world.inject(world.server, Lap{.local_comm_id = id, .remote_comm_id = peer}) ==
        MadVerdict::accepted);
  const auto out = world.server.agent.poll_transmit();
  REQUIRE(out);
  const auto parsed = parse(out->mad);
  REQUIRE(parsed);
  CHECK(std::get<Apr>(parsed->message).status == AprStatus::not_supported);
}

TEST_CASE("Of others' connections an agent says nothing") {
  CmWorld world;
  const CommId others{0x0900'0001};
  End& end = world.server;
  CHECK(world.inject(end, Rep{.remote_comm_id = others}) == MadVerdict::not_ours);
  CHECK(world.inject(end, Rtu{.remote_comm_id = others}) == MadVerdict::not_ours);
  CHECK(world.inject(end, Rej{.remote_comm_id = others}) == MadVerdict::not_ours);
  CHECK(world.inject(end, Mra{.remote_comm_id = others}) == MadVerdict::not_ours);
  CHECK(world.inject(end, Dreq{.remote_comm_id = others}) == MadVerdict::not_ours);
  CHECK(world.inject(end, Drep{.remote_comm_id = others}) == MadVerdict::not_ours);
  CHECK(world.inject(end, Lap{.remote_comm_id = others}) == MadVerdict::not_ours);
  CHECK_FALSE(end.agent.poll_transmit());
}

TEST_CASE("Of its own that are gone an agent answers what lets the peer go on") {
  CmWorld world;
  const CommId gone{0x0200'0001};
  End& end = world.server;
  CHECK(world.inject(end, Dreq{.local_comm_id = CommId{5}, .remote_comm_id = gone}) ==
        MadVerdict::unexpected);
  auto out = end.agent.poll_transmit();
  REQUIRE(out);
  CHECK(std::get<Drep>(parse(out->mad)->message).remote_comm_id == CommId{5});
  CHECK(world.inject(end, Rep{.local_comm_id = CommId{5}, .remote_comm_id = gone}) ==
        MadVerdict::unexpected);
  out = end.agent.poll_transmit();
  REQUIRE(out);
  CHECK(std::get<Rej>(parse(out->mad)->message).reason == RejectReason::invalid_comm_id);
}

TEST_CASE("Random messages never confuse an agent") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Prng prng(seed);
    CmWorld world;
    const CommId id = world.connect();
    world.run(1s);
    for (int i = 0; i < 500; ++i) {
      Mad mad{};
      for (std::byte& byte : mad) {
        byte = static_cast<std::byte>(prng.next());
      }
      MadHeader header;
      header.base_version = mad_base_version;
      header.management_class = class_communication_management;
      header.class_version = cm_class_version;
      header.method = method_send;
      header.attribute_id = static_cast<std::uint16_t>(0x10 + prng.below(11));
      write_struct(mad, header);
      // Often about the connection that there is.
      boost::endian::big_uint32_buf_t word{};
      word = to_value(prng.chance({1, 2}) ? id : world.server.events[0].id);
      write_struct(MutableBytes(mad).subspan(mad_header_bytes + 4 * prng.below(2)), word);
      End& end = prng.chance({1, 2}) ? world.client : world.server;
      static_cast<void>(end.agent.on_mad(world.now, end.route, mad));
      world.now += Duration(static_cast<std::int64_t>(prng.below(1'000'000'000)));
      end.agent.on_timer(world.now);
      while (end.agent.poll_transmit()) {
      }
    }
    world.run();
  }
}
