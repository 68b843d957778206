// Unreliable datagrams, from post to completion: what goes over the wire, where it lands, and what
// each check of the receiver refuses.
#include <algorithm>
#include <catch2/catch.hpp>

#include "proto/roce/decap.h"
#include "tests/unit/ib_bth_unreliable/datagrams.h"

namespace verbena::test {

TEST_CASE("a datagram lands behind 40 bytes, of which the last 20 are its IPv4 header") {
  Pair pair;
  const Datagrams ends(pair);
  pair.post_recv(Side::b, ends.b, 7, {{0, 4096}});
  const std::vector<std::byte> before(pair.b.bytes(0, 20).begin(), pair.b.bytes(0, 20).end());
  pair.post(Side::a, ends.a, ends.to_b(pair.a.send(1, {100, 500})));
  pair.run_until_idle();
  CHECK(pair.wire() == Lines{"> ud_send_only 100 +500"});
  CHECK(pair.a.completions() == Lines{"1 send success"});
  const auto received = pair.b.poll();
  REQUIRE(received.size() == 1);
  CHECK(to_text(received[0]) == "7 recv success +540");
  CHECK(received[0].with_grh);
  CHECK(received[0].network_header == NetworkHeader::ipv4);
  CHECK(received[0].src_qpn == nic::qpn_of(ends.a));
  CHECK(std::ranges::equal(pair.b.bytes(40, 500), pair.a.bytes(100, 500)));
  CHECK(std::ranges::equal(pair.b.bytes(0, 20), before));
  const auto frame = roce::parse_frame(pair.log()[0].frame);
  REQUIRE(frame);
  CHECK(std::ranges::equal(pair.b.bytes(20, 20), frame->network_header()));
}

TEST_CASE(
    "a datagram carries immediate data, the solicited bit and consecutive PSNs, never AckReq") {
  // users.md row 34 is about AckReq on services without acknowledgements.
  Pair pair;
  const Datagrams ends(pair);
  pair.post_recv(Side::b, ends.b, 7, {{0, 4096}});
  Work work = ends.to_b(pair.a.send_imm(1, {0, 8}, 99));
  work.solicited = true;
  pair.post(Side::a, ends.a, work);
  pair.post(Side::a, ends.a, ends.to_b(pair.a.send(2, {0, 0})));
  pair.run_until_idle();
  CHECK(pair.wire() == Lines{"> ud_send_only_imm 100 +8 SE", "> ud_send_only 101 +0"});
  CHECK(pair.b.completions() == Lines{"7 recv success +48 imm 99"});
}

TEST_CASE("a wrong Q_Key is dropped and counted, and the receive request stays") {
  Pair pair;
  const Datagrams ends(pair, {.type = nic::QpType::ud, .qkey = Qkey{5}});
  pair.post_recv(Side::b, ends.b, 7, {{0, 4096}});
  pair.post(Side::a, ends.a, ends.to_b(pair.a.send(1, {0, 8})));
  pair.run_until_idle();
  CHECK(pair.b.completions().empty());
  CHECK(pair.b.count(Counter::rx_drop_qkey) == 1);
  REQUIRE(pair.verdicts(Side::b).size() == 1);
  CHECK(pair.verdicts(Side::b)[0].expected == 5);
  CHECK(pair.verdicts(Side::b)[0].got == 0x1111);
  Work right = ends.to_b(pair.a.send(2, {0, 8}));
  right.remote_qkey = Qkey{5};
  pair.post(Side::a, ends.a, right);
  pair.run_until_idle();
  CHECK(pair.b.completions() == Lines{"7 recv success +48"});
}

TEST_CASE("a request whose Q_Key has bit 31 set sends the queue pair's own") {
  Pair pair;
  const Datagrams ends(pair);
  pair.post_recv(Side::b, ends.b, 7, {{0, 4096}});
  Work work = ends.to_b(pair.a.send(1, {0, 8}));
  work.remote_qkey = Qkey{0x8000'0005};
  pair.post(Side::a, ends.a, work);
  pair.run_until_idle();
  CHECK(pair.log()[0].fields.deth.qkey() == EndOptions{}.qkey);
  CHECK(pair.b.completions() == Lines{"7 recv success +48"});
}

TEST_CASE("without a receive request, or with too short a one, a datagram is lost in silence") {
  Pair pair;
  const Datagrams ends(pair);
  pair.post(Side::a, ends.a, ends.to_b(pair.a.send(1, {0, 8})));
  pair.run_until_idle();
  CHECK(pair.b.count(Counter::out_of_buffer) == 1);
  pair.post_recv(Side::b, ends.b, 7, {{0, 47}});
  pair.post(Side::a, ends.a, ends.to_b(pair.a.send(2, {0, 8})));
  pair.post(Side::a, ends.a, ends.to_b(pair.a.send(3, {0, 7})));
  pair.run_until_idle();
  CHECK(pair.b.count(Counter::resp_local_length_error) == 1);
  CHECK(pair.a.completions() == Lines{"1 send success", "2 send success", "3 send success"});
  CHECK(pair.b.completions() == Lines{"7 recv success +47"});
}

TEST_CASE("a datagram longer than the port's MTU ends the send queue; it can be taken up again") {
  Pair pair({.a = {.mtu_max = nic::Mtu::mtu_1024}});
  const Datagrams ends(pair);
  pair.post_recv(Side::a, ends.a, 5, {{0, 64}});
  pair.post_recv(Side::b, ends.b, 7, {{0, 2048}});
  pair.post(Side::a, ends.a, ends.to_b(pair.a.send(1, {0, 1025})));
  pair.run_until_idle();
  CHECK(nic::state_of(ends.a) == nic::QpState::sqe);
  pair.post(Side::a, ends.a, ends.to_b(pair.a.send(2, {0, 8})));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 send loc_len_err", "2 send wr_flush_err"});
  to_state(pair.a, pair.now(), ends.a, nic::QpState::rts);
  pair.post(Side::a, ends.a, ends.to_b(pair.a.send(3, {0, 1024})));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"3 send success"});
  CHECK(pair.b.completions() == Lines{"7 recv success +1064"});
}

TEST_CASE("an address handle that is destroyed stays good for what was posted with it") {
  Pair pair;
  const Datagrams ends(pair);
  pair.post_recv(Side::b, ends.b, 7, {{0, 4096}});
  pair.set_room(Side::a, 0);
  pair.post(Side::a, ends.a, ends.to_b(pair.a.send(1, {0, 8})));
  CHECK(pair.a.nic.object_counts().ahs == 1);
  pair.a.nic.destroy_ah(ends.ah);
  CHECK(pair.a.nic.object_counts().ahs == 0);
  pair.set_room(Side::a, Pair::always);
  pair.run_until_idle();
  CHECK(pair.b.completions() == Lines{"7 recv success +48"});
}

TEST_CASE("what datagrams can't do is refused when it is posted") {
  Pair pair;
  const Datagrams ends(pair);
  CHECK(pair.try_post(Side::a, ends.a, pair.a.send(1, {0, 8})).error() == PostError::bad_address);
  CHECK(pair.try_post(Side::a, ends.a, ends.to_b(pair.a.write(1, {0, 8}, pair.b, 0))).error() ==
        PostError::opcode_unsupported);
  const auto other_pd = pair.a.nic.alloc_pd();
  const auto foreign = pair.a.nic.create_ah(**other_pd, {.dgid = pair.b.gid(), .has_grh = true});
  Work work = ends.to_b(pair.a.send(1, {0, 8}));
  work.address = &nic::handle_of(**foreign);
  CHECK(pair.try_post(Side::a, ends.a, work).error() == PostError::bad_address);
  CHECK(pair.a.nic.create_ah(*pair.a.pd, {.dgid = pair.b.gid()}).error() ==
        nic::NicError::invalid_argument);
  CHECK(pair.a.nic.dealloc_pd(**other_pd).error() == nic::NicError::busy);
}

TEST_CASE("a packet of another service is not for a datagram queue pair") {
  Pair pair;
  const Datagrams ends(pair);
  const Connection connected = pair.connect();
  pair.post_recv(Side::b, *connected.b, 7, {{0, 4096}});
  Work work = ends.to_b(pair.a.send(1, {0, 8}));
  work.remote_qpn = nic::qpn_of(*connected.b);
  pair.post(Side::a, ends.a, work);
  pair.run_until_idle();
  CHECK(pair.b.count(Counter::rx_drop_wrong_service) == 1);
  CHECK(pair.b.completions().empty());
}

TEST_CASE("QPN 1 is there once, takes datagrams with the GSI's Q_Key, and says so to the port") {
  Pair pair;
  const EndOptions gsi{.type = nic::QpType::gsi, .qkey = nic::qkey_gsi};
  nic::Qp& a = ready_ud(pair, Side::a, gsi);
  nic::Qp& b = ready_ud(pair, Side::b, gsi);
  CHECK(nic::qpn_of(b) == qpn_gsi);
  CHECK(pair.b.nic
            .create_qp(*pair.b.pd,
                       {.type = nic::QpType::gsi, .send_cq = pair.b.cq, .recv_cq = pair.b.cq})
            .error() == nic::NicError::busy);
  for (const nic::GidEntry& row : pair.b.nic.config().gids) {
    const auto joined = pair.b.nic.poll_membership();
    REQUIRE(joined);
    CHECK(joined->gid == row.gid);
    CHECK(joined->joined);
  }
  CHECK_FALSE(pair.b.nic.poll_membership());

  pair.post_recv(Side::b, b, 7, {{0, 512}});
  Work mad = pair.a.send(1, {0, 256});
  mad.address = &nic::handle_of(ah_to(pair.a, pair.b.gid()));
  mad.remote_qpn = qpn_gsi;
  mad.remote_qkey = nic::qkey_gsi;
  pair.post(Side::a, a, mad);
  pair.run_until_idle();
  CHECK(pair.b.completions() == Lines{"7 recv success +296"});

  REQUIRE(pair.b.nic.destroy_qp(b));
  CHECK_FALSE(pair.b.nic.poll_membership()->joined);
  CHECK(pair.b.nic.find_qp(qpn_gsi) == nullptr);
}

}  // namespace verbena::test
