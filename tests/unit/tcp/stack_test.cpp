// Many connections over one link: ports and who may have them, connections that stand, strangers
// that are reset, and what strangers can't take. Two hosts in virtual time.
#include "proto/inet/tcp/stack.h"

#include <catch2/catch.hpp>
#include <deque>
#include <vector>

#include "base/prng.h"
#include "proto/inet/tcp/frame.h"

using namespace verbena;
using namespace verbena::inet;
using namespace std::chrono_literals;

namespace {

const Ipv6Address a_address = mapped({{10, 7, 0, 1}});
const Ipv6Address b_address = mapped({{10, 7, 0, 2}});
constexpr std::uint16_t port = 7'471;

class Watcher final : public TcpWatcher {
 public:
  void on_tcp_change() override { ++changes; }
  int changes = 0;
};

struct Packet {
  Ipv6Address source;
  Ipv6Address destination;
  std::vector<std::byte> bytes;
};

class Wire final : public TcpPacketSink {
 public:
  MutableBytes reserve(const Ipv6Address& source, const Ipv6Address& destination,
                       std::size_t bytes) override {
    if (packets.size() >= room) {
      return {};
    }
    next = {.source = source, .destination = destination, .bytes = std::vector<std::byte>(bytes)};
    return next.bytes;
  }
  void commit(TcpResend why, std::uint8_t times) override {
    resent = why != TcpResend::none ? times : resent;
    packets.push_back(next);
  }

  std::deque<Packet> packets;
  std::size_t room = 1'000;
  std::uint8_t resent = 0;

 private:
  Packet next;
};

TcpStack::Settings settings_of(const Ipv6Address& address, std::uint64_t seed) {
  return {.addresses = {{.address = address, .prefix_bits = 120}},
          .sockets_max = 8,
          .draw = [prng = Prng(seed)]() mutable { return prng.next(); }};
}

struct Hosts {
  TcpStack a{settings_of(a_address, 1)};
  TcpStack b{settings_of(b_address, 2)};
  Wire wire;
  Time now{1s};
  Watcher watcher;

  void deliver(const Packet& packet) {
    TcpStack& to = packet.destination == a_address ? a : b;
    const auto segment = parse_tcp(packet.bytes);
    REQUIRE(segment);
    to.on_segment(now, packet.source, packet.destination, *segment);
  }
  /// Until nobody has anything to say.
  void settle() {
    do {
      while (!wire.packets.empty()) {
        const Packet packet = wire.packets.front();
        wire.packets.pop_front();
        deliver(packet);
      }
      a.transmit(now, wire);
      b.transmit(now, wire);
    } while (!wire.packets.empty());
  }
  void pass(Duration time) {
    now += time;
    a.on_timer(now);
    b.on_timer(now);
    settle();
  }
  TcpStack::Socket& bound(TcpStack& stack, const TcpPlace& place) {
    const auto socket = stack.open(watcher);
    REQUIRE(socket);
    REQUIRE(stack.bind(**socket, place));
    return **socket;
  }
  TcpStack::Socket& listener(std::size_t backlog = 4) {
    TcpStack::Socket& socket = bound(b, {.address = b_address, .port = port});
    REQUIRE(b.listen(socket, backlog));
    return socket;
  }
  TcpStack::Socket& connected() {
    TcpStack::Socket& socket = bound(a, {.address = a_address});
    REQUIRE(a.connect(socket, {.address = b_address, .port = port}, now));
    settle();
    return socket;
  }
  /// A SYN of somebody who may not exist.
  void syn(std::uint8_t who, std::uint16_t from = 1'024) {
    Packet packet{.source = mapped({{10, 7, 0, who}}),
                  .destination = b_address,
                  .bytes = std::vector<std::byte>(tcp_header_bytes)};
    TcpHeader header;
    header.source_port = from;
    header.destination_port = port;
    header.data_offset = tcp_header_bytes / 4 << 4;
    header.flags = TcpHeader::flag_syn;
    write_struct(MutableBytes(packet.bytes), header);
    deliver(packet);
  }
};

}  // namespace

TEST_CASE("a connection is found, accepted, carries bytes both ways and ends") {
  Hosts hosts;
  TcpStack::Socket& listener = hosts.listener();
  TcpStack::Socket& client = hosts.connected();
  CHECK(client.tcp->state() == TcpState::established);
  CHECK(hosts.watcher.changes >= 2);
  TcpStack::Socket* const server = hosts.b.accept(listener, hosts.watcher);
  REQUIRE(server != nullptr);
  CHECK(server->remote == client.local);
  CHECK(hosts.b.accept(listener, hosts.watcher) == nullptr);

  const std::vector<std::byte> ping(5'000, std::byte{1});
  CHECK(hosts.a.write(client, ping) == ping.size());
  CHECK(hosts.a.wants_transmit());
  CHECK_FALSE(hosts.a.has_delivered());
  hosts.settle();
  CHECK(hosts.a.has_delivered());
  CHECK(server->tcp->readable().size() == ping.size());
  hosts.b.consume(*server, ping.size());
  hosts.b.write(*server, ByteView(ping).first(7));
  hosts.settle();
  CHECK(client.tcp->readable().size() == 7);
  hosts.a.consume(client, 7);

  hosts.a.close(client, hosts.now, false);
  hosts.settle();
  CHECK(server->tcp->peer_has_ended());
  hosts.b.close(*server, hosts.now, false);
  hosts.settle();
  hosts.pass(3s);  // TIME_WAIT.
  CHECK(hosts.a.sockets() == 0);
  CHECK(hosts.b.sockets() == 1);  // Who listens.
}

TEST_CASE("a port belongs to whoever has it") {
  Hosts hosts;
  const TcpPlace place{.address = b_address, .port = port};
  TcpStack::Socket& first = hosts.bound(hosts.b, place);
  const auto second = hosts.b.open(hosts.watcher);
  REQUIRE(second);
  CHECK(hosts.b.bind(**second, place).error() == TcpRefusal::port_in_use);
  CHECK(hosts.b.bind(**second, {.address = a_address, .port = port}).error() ==
        TcpRefusal::no_such_address);
  first.shares_port = (*second)->shares_port = true;
  CHECK(hosts.b.bind(**second, place));
  CHECK(hosts.b.listen(first, 1));
  CHECK(hosts.b.listen(**second, 1).error() == TcpRefusal::port_in_use);
  hosts.b.close(first, hosts.now, false);
  CHECK(hosts.b.listen(**second, 1));
}

TEST_CASE("ephemeral ports are dynamic ones, not guessed, and each is given once") {
  Hosts hosts;
  std::vector<std::uint16_t> ports;
  for (int i = 0; i < 8; ++i) {
    ports.push_back(hosts.bound(hosts.a, {.address = a_address}).local.port);
    CHECK(ports.back() >= TcpStack::ephemeral_port_min);
  }
  CHECK(hosts.a.open(hosts.watcher).error() == TcpRefusal::too_many);
  CHECK_FALSE(std::ranges::is_sorted(ports));
  std::ranges::sort(ports);
  CHECK(std::ranges::adjacent_find(ports) == ports.end());
}

TEST_CASE("where nobody listens a connection is refused, and can be tried again") {
  Hosts hosts;
  TcpStack::Socket& client = hosts.connected();
  CHECK(client.tcp->state() == TcpState::closed);
  CHECK(client.tcp->end() == TcpEnd::refused);
  CHECK(hosts.b.counters().strangers == 1);
  hosts.listener();
  REQUIRE(hosts.a.connect(client, {.address = b_address, .port = port}, hosts.now));
  hosts.settle();
  CHECK(client.tcp->state() == TcpState::established);
}

TEST_CASE("who calls again from the same port needn't wait for the end of the last call") {
  // The side that closed first waits; a SYN that is ahead of all it has seen begins anew (RFC 9293,
  // 3.6.1), one that isn't is an old one.
  Hosts hosts;
  TcpStack::Socket& listener = hosts.listener();
  const TcpPlace from{.address = a_address, .port = 5'000};
  const TcpPlace to{.address = b_address, .port = port};
  std::vector<TcpSeq> ends_of_b;
  for (int call = 0; call < 3; ++call) {
    TcpStack::Socket& client = hosts.bound(hosts.a, from);
    REQUIRE(hosts.a.connect(client, to, hosts.now));
    hosts.settle();
    TcpStack::Socket* const server = hosts.b.accept(listener, hosts.watcher);
    REQUIRE(server != nullptr);
    const TcpSeq begin_of_b = server->tcp->sent_until();
    CHECK((ends_of_b.empty() || begin_of_b.is_after(ends_of_b.back())));
    hosts.b.write(*server, std::vector<std::byte>(50'000));
    hosts.settle();
    hosts.a.consume(client, client.tcp->readable().size());
    hosts.b.close(*server, hosts.now, false);
    hosts.settle();
    hosts.a.close(client, hosts.now, false);
    hosts.settle();
    CHECK(server->tcp->state() == TcpState::time_wait);
    ends_of_b.push_back(server->tcp->sent_until());
    CHECK(hosts.a.sockets() == 0);
    hosts.now += 1ms;
  }
  hosts.syn(1, from.port);  // With the sequence number 0, some time ago.
  CHECK_FALSE(hosts.b.has_somebody(listener));
  CHECK(listener.waiting.empty());
  hosts.wire.packets.clear();
  hosts.pass(3s);
  CHECK(hosts.b.sockets() == 1);
}

TEST_CASE("there is no way to other subnets, groups, ourselves or port 0") {
  Hosts hosts;
  TcpStack::Socket& socket = hosts.bound(hosts.a, {.address = a_address});
  for (const TcpPlace& place : {TcpPlace{mapped({{10, 8, 0, 1}}), port},
                                {mapped({{239, 0, 0, 1}}), port},
                                {a_address, port},
                                {b_address, 0},
                                {*Ipv6Address::from_text("fd00::1"), port}}) {
    CHECK(hosts.a.connect(socket, place, hosts.now).error() == TcpRefusal::no_route);
  }
}

TEST_CASE("segments of addresses that nobody has are counted and not answered") {
  Hosts hosts;
  hosts.listener();
  for (const Ipv6Address& source : {mapped({{239, 0, 0, 1}}), mapped({{255, 255, 255, 255}}),
                                    mapped({{127, 0, 0, 1}}), b_address, Ipv6Address{}}) {
    const std::vector<std::byte> bytes(tcp_header_bytes, std::byte{0x50});
    const auto segment = parse_tcp(bytes);
    REQUIRE(segment);
    hosts.b.on_segment(hosts.now, source, b_address, *segment);
  }
  CHECK(hosts.b.counters().addresses_refused == 5);
  hosts.b.transmit(hosts.now, hosts.wire);
  CHECK(hosts.wire.packets.empty());
}

TEST_CASE("those who only knock don't keep others out, and are forgotten") {
  Hosts hosts;
  TcpStack::Socket& listener = hosts.listener(2);
  for (std::uint8_t who = 10; who < 20; ++who) {
    hosts.syn(who);
  }
  CHECK(listener.waiting.size() == 2);
  CHECK(hosts.b.counters().half_open_evicted == 8);
  hosts.wire.packets.clear();
  const TcpStack::Socket& client = hosts.connected();
  CHECK(client.tcp->state() == TcpState::established);
  // Nobody answers the others' SYN,ACK: three times again, then they are over.
  for (int i = 0; i < 40; ++i) {
    hosts.now += 1s;
    hosts.b.on_timer(hosts.now);
    hosts.b.transmit(hosts.now, hosts.wire);
    hosts.wire.packets.clear();
  }
  CHECK(hosts.wire.resent == 3);
  CHECK(listener.waiting.size() == 1);
}

TEST_CASE("connections that nobody accepts fill the backlog, and then others are ignored") {
  Hosts hosts;
  TcpStack::Socket& listener = hosts.listener(2);
  hosts.connected();
  hosts.connected();
  const TcpStack::Socket& third = hosts.connected();
  CHECK(third.tcp->state() == TcpState::syn_sent);
  CHECK(hosts.b.counters().syns_dropped == 1);
  REQUIRE(hosts.b.accept(listener, hosts.watcher) != nullptr);
  hosts.pass(1s);
  CHECK(third.tcp->state() == TcpState::established);
}

TEST_CASE("who stops listening resets those who wait") {
  Hosts hosts;
  TcpStack::Socket& listener = hosts.listener();
  const TcpStack::Socket& client = hosts.connected();
  hosts.b.close(listener, hosts.now, false);
  hosts.settle();
  CHECK(client.tcp->end() == TcpEnd::reset);
  CHECK(hosts.b.sockets() == 0);
}

TEST_CASE("a connection that its owner left with unread bytes is reset; one that never ends, too") {
  Hosts hosts;
  TcpStack::Socket& listener = hosts.listener();
  TcpStack::Socket& client = hosts.connected();
  TcpStack::Socket* const server = hosts.b.accept(listener, hosts.watcher);
  REQUIRE(server != nullptr);
  SECTION("unread bytes") {
    hosts.a.write(client, std::vector<std::byte>(10));
    hosts.settle();
    hosts.b.close(*server, hosts.now, false);
    hosts.settle();
    CHECK(client.tcp->end() == TcpEnd::reset);
  }
  SECTION("no end") {
    hosts.b.close(*server, hosts.now, false);
    hosts.settle();
    CHECK(hosts.b.sockets() == 2);
    hosts.pass(31s);
    CHECK(hosts.b.counters().orphans_given_up == 1);
    CHECK(hosts.b.sockets() == 1);
    CHECK(client.tcp->end() == TcpEnd::reset);
  }
}

TEST_CASE("resets that can't be sent wait, and not too many of them") {
  Hosts hosts;
  for (std::uint16_t from = 1'000; from < 1'100; ++from) {
    hosts.syn(10, from);
  }
  CHECK(hosts.b.counters().resets_unsent == 100 - TcpStack::resets_waiting_max);
  hosts.wire.room = 0;
  hosts.b.transmit(hosts.now, hosts.wire);
  hosts.wire.room = 1'000;
  hosts.b.transmit(hosts.now, hosts.wire);
  CHECK(hosts.wire.packets.size() == TcpStack::resets_waiting_max);
}
