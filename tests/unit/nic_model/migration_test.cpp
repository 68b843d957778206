// Automatic path migration: which packets say what of the state, who goes over to the other way
// and when, and what is told of it (IBTA vol 1, 17.2.8). The two ways are RoCE v2 over IPv4 and
// over IPv6.
#include <catch2/catch.hpp>

#include "proto/roce/decap.h"
#include "tests/support/pair.h"

namespace verbena::test {

namespace m = nic::qp_attr_mask;
using nic::PathMigState;
using roce::Version;

namespace {

constexpr std::uint8_t alternate_row = 1;
constexpr std::uint8_t alternate_timeout = 9;

Version version_of(const WirePacket& packet) {
  const auto frame = roce::parse_frame(packet.frame);
  REQUIRE(frame);
  return frame->version;
}

bool is_on_first_way(const WirePacket& packet) { return version_of(packet) == Version::v2_ipv4; }

/// Two connected hosts whose queue pairs can learn of a second way.
struct Ways : Pair {
  explicit Ways(nic::QpType type = nic::QpType::rc)
      : qps(connect({.timeout = 8, .retry_cnt = 2, .type = type},
                    {.timeout = 8, .retry_cnt = 2, .type = type})) {}

  [[nodiscard]] nic::Qp& qp(Side side) const { return side == Side::a ? *qps.a : *qps.b; }
  [[nodiscard]] PathMigState state(Side side) {
    return host(side).nic.query_qp(qp(side)).path_mig_state;
  }
  [[nodiscard]] bool modify(Side side, const nic::QpAttr& attr, std::uint32_t mask) {
    return host(side).nic.modify_qp(now(), qp(side), attr, mask).has_value();
  }
  [[nodiscard]] bool set_state(Side side, PathMigState to) {
    nic::QpAttr attr;
    attr.path_mig_state = to;
    return modify(side, attr, m::path_mig_state);
  }
  [[nodiscard]] bool load(Side side) {
    nic::QpAttr attr;
    const Host& peer = host(side == Side::a ? Side::b : Side::a);
    attr.alt_av = {.dgid = peer.gid(alternate_row), .sgid_index = alternate_row, .has_grh = true};
    attr.alt_port = 1;
    attr.alt_timeout = alternate_timeout;
    return modify(side, attr, m::alt_path);
  }
  /// A WRITE of that side's goes through.
  void write(Side side) {
    Host& from = host(side);
    post(side, qp(side), from.write(1, {0, 8}, host(side == Side::a ? Side::b : Side::a), 0));
    run_until_idle();
    REQUIRE(from.completions() == Lines{"1 write success"});
  }
  void rearm(Side side) {
    REQUIRE(load(side));
    REQUIRE(set_state(side, PathMigState::rearm));
  }
  /// Both ends are armed: each has heard that the other one has rearmed.
  void arm() {
    rearm(Side::a);
    rearm(Side::b);
    write(Side::a);
    REQUIRE(state(Side::a) == PathMigState::armed);
    REQUIRE(state(Side::b) == PathMigState::armed);
    clear_log();
  }

  Connection qps;
};

}  // namespace

TEST_CASE("an end that has rearmed says so, and is armed once the other end has said so, too") {
  Ways pair;
  pair.rearm(Side::a);
  pair.write(Side::a);
  CHECK(pair.state(Side::a) == PathMigState::rearm);
  CHECK_FALSE(pair.log().at(0).fields.migrated);
  CHECK(pair.log().at(1).fields.migrated);
  CHECK(is_on_first_way(pair.log().at(0)));

  pair.rearm(Side::b);
  CHECK(pair.state(Side::b) == PathMigState::rearm);
  pair.write(Side::a);
  CHECK(pair.state(Side::a) == PathMigState::armed);
  CHECK(pair.state(Side::b) == PathMigState::armed);
  CHECK(pair.a.events().empty());
}

TEST_CASE("who is told to migrate goes the other way, and its peer follows") {
  Ways pair;
  pair.arm();
  REQUIRE(pair.set_state(Side::a, PathMigState::migrated));
  CHECK(pair.a.events() == Lines{"PATH_MIG"});
  pair.write(Side::a);
  CHECK(pair.state(Side::b) == PathMigState::migrated);
  CHECK(pair.b.events().back() == "PATH_MIG");
  REQUIRE(pair.log().size() == 2);
  for (const WirePacket& packet : pair.log()) {
    CHECK(version_of(packet) == Version::v2_ipv6);
    CHECK(packet.fields.migrated);
  }
  const nic::QpAttr attr = pair.a.nic.query_qp(*pair.qps.a);
  CHECK(attr.av.sgid_index == alternate_row);
  CHECK(attr.timeout == alternate_timeout);
  CHECK(attr.alt_av.sgid_index == 0);
  CHECK(attr.alt_timeout == 8);
}

TEST_CASE("a way that swallows everything is given up after the last retry") {
  Ways pair;
  pair.arm();
  pair.set_weather([](const WirePacket& packet) { return Fate{.drop = is_on_first_way(packet)}; });
  pair.post_recv(Side::b, *pair.qps.b, 7, {{0, 4096}});
  pair.post(Side::a, *pair.qps.a, pair.a.send(1, {0, 2500}));
  pair.post(Side::a, *pair.qps.a, pair.a.read(2, {4096, 2500}, pair.b, 0));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 send success", "2 read success"});
  CHECK(pair.b.completions() == Lines{"7 recv success +2500"});
  CHECK(pair.a.events() == Lines{"PATH_MIG"});
  CHECK(pair.a.count(Counter::local_ack_timeout_err) == 3);
  CHECK(pair.a.count(Counter::retry_exceeded_err) == 0);
  CHECK(pair.state(Side::b) == PathMigState::migrated);
}

TEST_CASE("when both ways are dead, the request fails after the retries of both") {
  Ways pair;
  pair.arm();
  pair.set_weather([](const WirePacket&) { return Fate{.drop = true}; });
  pair.post(Side::a, *pair.qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write retry_exc_err"});
  CHECK(pair.a.count(Counter::local_ack_timeout_err) == 6);
}

TEST_CASE("without being armed a dead way is the end") {
  Ways pair;
  pair.rearm(Side::a);
  pair.set_weather([](const WirePacket&) { return Fate{.drop = true}; });
  pair.post(Side::a, *pair.qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write retry_exc_err"});
  CHECK(pair.a.events().empty());
}

TEST_CASE("a peer that migrates where nobody is ready to follow is refused with an event, once") {
  Ways pair;
  pair.arm();
  static_cast<void>(pair.b.events());
  REQUIRE(pair.set_state(Side::b, PathMigState::rearm));
  REQUIRE(pair.set_state(Side::a, PathMigState::migrated));
  pair.post(Side::a, *pair.qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write retry_exc_err"});
  CHECK(pair.b.events() == Lines{"PATH_MIG_ERR"});
  CHECK(pair.b.count(Counter::rx_drop_wrong_peer) == 3);
}

TEST_CASE("after a migration both ends can rearm with the way that they came from") {
  Ways pair;
  pair.arm();
  for (int i = 0; i < 3; ++i) {
    REQUIRE(pair.set_state(Side::a, PathMigState::migrated));
    pair.write(Side::a);
    REQUIRE(pair.set_state(Side::a, PathMigState::rearm));
    REQUIRE(pair.set_state(Side::b, PathMigState::rearm));
    pair.write(Side::b);
    REQUIRE(pair.state(Side::a) == PathMigState::armed);
    REQUIRE(pair.state(Side::b) == PathMigState::armed);
  }
}

TEST_CASE("an unreliable connection follows its peer") {
  Ways pair(nic::QpType::uc);
  pair.rearm(Side::a);
  pair.rearm(Side::b);
  pair.write(Side::a);
  pair.write(Side::b);
  REQUIRE(pair.state(Side::b) == PathMigState::armed);
  REQUIRE(pair.state(Side::a) == PathMigState::armed);
  REQUIRE(pair.set_state(Side::a, PathMigState::migrated));
  pair.write(Side::a);
  CHECK(pair.state(Side::b) == PathMigState::migrated);
  CHECK(pair.b.events().back() == "PATH_MIG");
}

TEST_CASE("what can't be set of the second way is refused") {
  Ways pair;
  CHECK_FALSE(pair.set_state(Side::a, PathMigState::armed));
  CHECK_FALSE(pair.set_state(Side::a, PathMigState::rearm));  // There is no second way.
  CHECK(pair.set_state(Side::a, PathMigState::migrated));
  nic::QpAttr attr;
  attr.alt_av = {.dgid = pair.b.gid(1), .sgid_index = 1, .has_grh = true};
  CHECK_FALSE(pair.modify(Side::a, attr, m::alt_path));  // Port 0.
  attr.alt_port = 1;
  attr.alt_timeout = 32;
  CHECK_FALSE(pair.modify(Side::a, attr, m::alt_path));
  attr.alt_timeout = 31;
  attr.alt_av.sgid_index = 0;  // From IPv4 to IPv6.
  CHECK_FALSE(pair.modify(Side::a, attr, m::alt_path));
  attr.alt_av.sgid_index = 1;
  CHECK(pair.modify(Side::a, attr, m::alt_path));
  CHECK(pair.set_state(Side::a, PathMigState::rearm));
}

TEST_CASE("a queue pair that is reset forgets its second way") {
  Ways pair;
  pair.arm();
  to_state(pair.a, pair.now(), *pair.qps.a, nic::QpState::reset);
  CHECK(pair.state(Side::a) == PathMigState::migrated);
  CHECK_FALSE(pair.set_state(Side::a, PathMigState::rearm));
}

}  // namespace verbena::test
