// Every row of the GID table: RoCE v2 over IPv4 and over IPv6, and RoCE v1. What a queue pair sends
// is of the kind of its row, and it takes nothing else.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "proto/roce/decap.h"
#include "proto/roce/gid.h"
#include "tests/support/pair.h"

namespace verbena::test {

namespace {

using roce::Version;

constexpr std::array versions{Version::v2_ipv4, Version::v2_ipv6, Version::v1, Version::v1};

roce::RoceFrame frame_of(const WirePacket& packet) {
  const auto frame = roce::parse_frame(packet.frame);
  REQUIRE(frame);
  return *frame;
}

nic::Ah& ah_of(Host& host, const Gid& destination, std::uint8_t row) {
  const auto ah =
      host.nic.create_ah(*host.pd, {.dgid = destination, .sgid_index = row, .has_grh = true});
  REQUIRE(ah);
  return **ah;
}

}  // namespace

TEST_CASE("a reliable connection works with every row, in frames of its kind") {
  const auto row = static_cast<std::uint8_t>(GENERATE(0, 1, 2, 3));
  Pair pair;
  const EndOptions options{.sgid_index = row};
  const Connection qps = pair.connect(options, options);
  pair.post_recv(Side::b, *qps.b, 7, {{0, 4096}});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 2500}));
  pair.post(Side::a, *qps.a, pair.a.read(2, {4096, 2500}, pair.b, 0));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 send success", "2 read success"});
  CHECK(pair.b.completions() == Lines{"7 recv success +2500"});
  for (const WirePacket& packet : pair.log()) {
    const roce::RoceFrame frame = frame_of(packet);
    CHECK(frame.version == versions.at(row));
    const Host& receiver = packet.from == Side::a ? pair.b : pair.a;
    CHECK(frame.destination_mac == nic::mac_of(receiver.address));
  }
}

TEST_CASE("a datagram over IPv6 or RoCE v1 fills all 40 bytes in front with its header") {
  const auto row = static_cast<std::uint8_t>(GENERATE(1, 2, 3));
  Pair pair;
  const EndOptions ud{.type = nic::QpType::ud};
  nic::Qp& from = create_qp(pair.a, ud);
  nic::Qp& to = create_qp(pair.b, ud);
  for (const auto& [host, qp] : {std::pair{&pair.a, &from}, std::pair{&pair.b, &to}}) {
    to_init(*host, pair.now(), *qp, ud);
    to_rtr(*host, pair.now(), *qp, ud, {}, {}, {});
    to_rts(*host, pair.now(), *qp, ud);
  }
  pair.post_recv(Side::b, to, 7, {{0, 512}});
  Work work = pair.a.send(1, {0, 100});
  work.address = &nic::handle_of(ah_of(pair.a, pair.b.gid(row), row));
  work.remote_qpn = nic::qpn_of(to);
  work.remote_qkey = ud.qkey;
  pair.post(Side::a, from, work);
  pair.run_until_idle();
  const auto received = pair.b.poll();
  REQUIRE(received.size() == 1);
  CHECK(to_text(received[0]) == "7 recv success +140");
  CHECK(received[0].network_header == (row == 1 ? NetworkHeader::ipv6 : NetworkHeader::grh));
  const roce::RoceFrame frame = frame_of(pair.log().at(0));
  REQUIRE(frame.network_header().size() == 40);
  CHECK(std::ranges::equal(frame.network_header(), pair.b.bytes(0, 40)));
}

TEST_CASE("ends with the same GIDs but another version of RoCE don't hear each other") {
  Pair pair;
  const EndOptions v2{.timeout = 8, .retry_cnt = 1, .sgid_index = 0};
  const EndOptions v1{.sgid_index = 2};
  const Connection qps = pair.connect(v2, v1);
  pair.post_recv(Side::b, *qps.b, 7, {{0, 4096}});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 8}));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 send retry_exc_err"});
  CHECK(pair.b.count(Counter::rx_drop_wrong_peer) == 2);
}

TEST_CASE("RoCE v2 doesn't go from IPv4 to IPv6, but to a group of either kind it does") {
  Pair pair;
  const auto try_ah = [&](const Gid& destination, std::uint8_t row) {
    return pair.a.nic
        .create_ah(*pair.a.pd, {.dgid = destination, .sgid_index = row, .has_grh = true})
        .has_value();
  };
  const Gid ipv4_group = roce::gid_from_text("239.0.0.1").value();
  const Gid ipv6_group = roce::gid_from_text("ff0e::1").value();
  CHECK_FALSE(try_ah(pair.b.gid(1), 0));
  CHECK_FALSE(try_ah(pair.b.gid(0), 1));
  CHECK(try_ah(ipv4_group, 0));
  CHECK(try_ah(ipv6_group, 0));
  CHECK(try_ah(ipv6_group, 1));
  CHECK_FALSE(try_ah(ipv4_group, 1));
  CHECK(try_ah(ipv4_group, 3));
  CHECK_FALSE(try_ah(pair.b.gid(0), 4));
  CHECK_FALSE(try_ah(Gid{}, 2));
}

TEST_CASE("on a VLAN every packet has a tag, with the service level as its priority") {
  const auto row = static_cast<std::uint8_t>(GENERATE(0, 1, 2, 3));
  Pair pair({.a = {.vlan = 100}, .b = {.vlan = 100}});
  const EndOptions options{.sgid_index = row, .sl = 5};
  const Connection qps = pair.connect(options, options);
  pair.post_recv(Side::b, *qps.b, 7, {{0, 4096}});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 2500}));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 send success"});
  CHECK(pair.b.completions() == Lines{"7 recv success +2500"});
  CHECK(pair.log().size() >= 4);
  for (const WirePacket& packet : pair.log()) {
    CHECK(frame_of(packet).vlan_control == (5U << 13 | 100));
  }
}

TEST_CASE("hosts of different VLANs don't hear each other") {
  const auto vlan = GENERATE(std::optional<std::uint16_t>(), std::optional<std::uint16_t>(101));
  Pair pair({.a = {.vlan = 100}, .b = {.vlan = vlan}});
  const EndOptions options{.timeout = 8, .retry_cnt = 1};
  const Connection qps = pair.connect(options, options);
  pair.post_recv(Side::b, *qps.b, 7, {{0, 4096}});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 8}));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 send retry_exc_err"});
  CHECK(pair.b.count(Counter::rx_drop_wrong_address) == 2);
}

}  // namespace verbena::test
