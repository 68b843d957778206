// Service ID resolution: a UD queue pair is found by the service behind which it is.

#include <catch2/catch.hpp>

#include "tests/unit/ib_bth_cm/cm_world.h"

using namespace verbena;
using namespace verbena::ib::cm;
using namespace verbena::test;
using Kind = Event::Kind;
using Kinds = std::vector<Kind>;

namespace {

CommId resolve(CmWorld& world, ServiceId id = service) {
  return world.client.agent.resolve(world.now, world.client.route, SidrReq{.service_id = id}, 6s,
                                    15, 5);
}

/// The server answers whatever has come.
void answer(CmWorld& world) {
  for (const Event& event : world.server.events) {
    world.server.agent.answer(world.now, event.id,
                              SidrRep{.qpn = Qpn{0x99}, .qkey = Qkey{0x0123'4567}});
  }
}

}  // namespace

TEST_CASE("A service ID is resolved to a queue pair and its key") {
  CmWorld world;
  resolve(world);
  world.run(1ms);
  REQUIRE(world.server.kinds() == Kinds{Kind::sidr_request});
  answer(world);
  world.run();
  REQUIRE(world.client.kinds() == Kinds{Kind::sidr_reply});
  const auto& rep = std::get<SidrRep>(*world.client.events[0].message);
  CHECK(rep.status == SidrStatus::valid);
  CHECK(rep.qpn == Qpn{0x99});
  CHECK(rep.qkey == Qkey{0x0123'4567});
  CHECK(world.client.agent.count() == 0);
  CHECK(world.server.agent.count() == 0);
}

TEST_CASE("SIDR messages may be lost or repeated") {
  for (std::size_t index = 0; index < 2; ++index) {
    for (const bool repeat : {false, true}) {
      INFO("message " << index << (repeat ? " repeated" : " lost"));
      CmWorld world;
      world.link = [&](std::size_t i, const CmWorld::Sent&) {
        if (i != index) {
          return std::vector<Duration>{CmWorld::delay};
        }
        return repeat ? std::vector<Duration>{CmWorld::delay, Duration(1s)}
                      : std::vector<Duration>{};
      };
      resolve(world);
      for (int i = 0; i < 20; ++i) {
        world.run(500ms);
        answer(world);
      }
      world.run();
      // An answer that is lost after its memory has passed makes a second request; no less than
      // one.
      CHECK(world.client.kinds() == Kinds{Kind::sidr_reply});
      CHECK(world.client.agent.count() == 0);
      CHECK(world.server.agent.count() == 0);
    }
  }
}

TEST_CASE("Nobody behind a service: SIDR status 1") {
  CmWorld world;
  resolve(world, ServiceId{1});
  world.run();
  REQUIRE(world.client.kinds() == Kinds{Kind::sidr_reply});
  CHECK(std::get<SidrRep>(*world.client.events[0].message).status == SidrStatus::unsupported);
}

TEST_CASE("A SIDR request without an answer is given up") {
  CmWorld world;
  world.server.alive = false;
  resolve(world);
  world.run();
  CHECK(world.client.kinds() == Kinds{Kind::unreachable});
  CHECK(world.log.size() == 16);
}

TEST_CASE("A SIDR request whose consumer goes is rejected") {
  CmWorld world;
  resolve(world);
  world.run(1ms);
  world.server.agent.destroy(world.now, world.server.last_id());
  world.run();
  REQUIRE(world.client.kinds() == Kinds{Kind::sidr_reply});
  CHECK(std::get<SidrRep>(*world.client.events[0].message).status == SidrStatus::rejected);
  CHECK(world.server.agent.count() == 0);
}
