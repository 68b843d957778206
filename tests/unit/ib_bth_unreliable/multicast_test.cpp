// Multicast: who gets a copy, and what keeps a queue pair out.
#include <catch2/catch.hpp>

#include "nic_model/own_multicast.h"
#include "proto/roce/decap.h"
#include "proto/roce/gid.h"
#include "tests/unit/ib_bth_unreliable/datagrams.h"

namespace verbena::test {

namespace {

Gid group() { return roce::gid_from_text("::ffff:239.1.2.3").value(); }

Work to_group(Host& host, Work work) {
  work.address = &nic::handle_of(ah_to(host, group()));
  work.remote_qpn = qpn_multicast;
  work.remote_qkey = EndOptions{}.qkey;
  return work;
}

}  // namespace

TEST_CASE("every attached queue pair gets a copy, to the group's Ethernet address") {
  Pair pair;
  nic::Qp& sender = ready_ud(pair, Side::a);
  nic::Qp& first = ready_ud(pair, Side::b);
  nic::Qp& second = ready_ud(pair, Side::b);
  nic::Qp& stranger = ready_ud(pair, Side::b);
  REQUIRE(pair.b.nic.attach_multicast(first, group()));
  REQUIRE(pair.b.nic.attach_multicast(second, group()));
  REQUIRE(pair.b.nic.attach_multicast(second, group()));
  pair.post_recv(Side::b, first, 1, {{0, 512}});
  pair.post_recv(Side::b, second, 2, {{512, 512}});
  pair.post_recv(Side::b, stranger, 3, {{1024, 512}});
  pair.post(Side::a, sender, to_group(pair.a, pair.a.send(9, {0, 100})));
  pair.run_until_idle();
  CHECK(pair.b.completions() == Lines{"1 recv success +140", "2 recv success +140"});
  const auto frame = roce::parse_frame(pair.log()[0].frame);
  REQUIRE(frame);
  CHECK(frame->destination_mac.to_text() == "01:00:5e:01:02:03");
}

TEST_CASE("one queue pair without a receive request doesn't keep the others from theirs") {
  Pair pair;
  nic::Qp& sender = ready_ud(pair, Side::a);
  nic::Qp& first = ready_ud(pair, Side::b);
  nic::Qp& second = ready_ud(pair, Side::b);
  REQUIRE(pair.b.nic.attach_multicast(first, group()));
  REQUIRE(pair.b.nic.attach_multicast(second, group()));
  pair.post_recv(Side::b, second, 2, {{0, 512}});
  pair.post(Side::a, sender, to_group(pair.a, pair.a.send(9, {0, 1})));
  pair.run_until_idle();
  CHECK(pair.b.completions() == Lines{"2 recv success +41"});
}

TEST_CASE("a queue pair that doesn't want its own datagrams back gets everybody else's") {
  Pair pair;
  nic::Qp& sender = ready_ud(pair, Side::a);
  nic::Qp& neighbour = ready_ud(pair, Side::a);
  nic::block_own_multicast(sender);
  nic::block_own_multicast(neighbour);
  nic::Qp& other_host = ready_ud(pair, Side::b);
  REQUIRE(pair.a.nic.attach_multicast(sender, group()));
  REQUIRE(pair.a.nic.attach_multicast(neighbour, group()));
  pair.post_recv(Side::a, sender, 1, {{0, 512}});
  pair.post_recv(Side::a, neighbour, 2, {{512, 512}});
  pair.post(Side::a, sender, to_group(pair.a, pair.a.send(9, {0, 100})));
  pair.run_until_idle();
  // A port gives a host its own frames to groups, too.
  static_cast<void>(pair.a.nic.on_frame(pair.now(), pair.log()[0].frame));
  CHECK(pair.a.completions() == Lines{"9 send success", "2 recv success +140"});
  // The number alone doesn't make it the same queue pair.
  CHECK(nic::qpn_of(other_host) == nic::qpn_of(sender));
  pair.post(Side::b, other_host, to_group(pair.b, pair.b.send(9, {0, 100})));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 recv success +140"});
}

TEST_CASE("a group is told to the port with its first queue pair and with its last") {
  Pair pair;
  nic::Qp& first = ready_ud(pair, Side::b);
  nic::Qp& second = ready_ud(pair, Side::b);
  nic::Nic& nic = pair.b.nic;
  REQUIRE(nic.attach_multicast(first, group()));
  REQUIRE(nic.attach_multicast(second, group()));
  const auto joined = nic.poll_membership();
  REQUIRE(joined);
  CHECK(joined->joined);
  CHECK(joined->gid == group());
  CHECK(nic.destroy_qp(first).error() == nic::NicError::busy);
  REQUIRE(nic.detach_multicast(first, group()));
  CHECK(nic.detach_multicast(first, group()).error() == nic::NicError::invalid_argument);
  CHECK_FALSE(nic.poll_membership());
  nic.detach_multicast(second);
  REQUIRE(nic.poll_membership());
  REQUIRE(nic.destroy_qp(second));
}

TEST_CASE("only datagram queue pairs attach, and only to groups") {
  Pair pair;
  nic::Qp& datagram = ready_ud(pair, Side::b);
  const Connection connected = pair.connect();
  CHECK_FALSE(pair.b.nic.attach_multicast(*connected.b, group()));
  CHECK_FALSE(pair.b.nic.attach_multicast(datagram, pair.b.gid()));
}

TEST_CASE("a datagram to a group of nobody is dropped by its address") {
  Pair pair;
  nic::Qp& sender = ready_ud(pair, Side::a);
  pair.post(Side::a, sender, to_group(pair.a, pair.a.send(9, {0, 1})));
  pair.run_until_idle();
  CHECK(pair.b.count(Counter::rx_drop_wrong_address) == 1);
}

}  // namespace verbena::test
