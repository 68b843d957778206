// Frames that no QPN of a process names: to a multicast group, and to QPN 1 of an address. They
// reach every process that wants them and no other, and one that hangs doesn't stop the rest for
// ever.
#include <chrono>

#include "proto/roce/gid.h"
#include "tests/unit/ports/fabric_fixture.h"

namespace verbena::ports {
namespace {

using namespace std::chrono_literals;
using test::has_pattern;
using test::open_port;
using test::PortWithQpns;
using test::RecordingHandler;
using test::TemporaryDirectory;

constexpr std::uint32_t many = 1U << 20;

Gid gid(const char* text) { return roce::gid_from_text(text).value(); }

constexpr std::size_t frame_bytes = 1000;

bool send_to(Port& port, const FrameRoute& route, std::uint64_t number) {
  return test::send(port, route, frame_bytes, number);
}

FrameRoute to_group(const Gid& group) {
  return {
      .source = {}, .destination = group, .destination_qpn = qpn_multicast, .may_be_lost = true};
}

TEST_CASE("a frame to a group is copied to all that joined, the sender too, and to nobody else") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns a = open_port(path);
  const PortWithQpns b = open_port(path);
  const PortWithQpns c = open_port(path);
  const Gid group = gid("239.1.1.1");
  a->set_membership({.gid = group, .joined = true});
  b->set_membership({.gid = group, .joined = true});
  c->set_membership({.gid = gid("239.1.1.2"), .joined = true});
  REQUIRE(send_to(*a.port, to_group(group), 1));
  a->flush();
  RecordingHandler to_a, to_b, to_c;
  CHECK(a->poll_receive(to_a, many) == 1);
  CHECK(b->poll_receive(to_b, many) == 1);
  CHECK(c->poll_receive(to_c, many) == 0);
  CHECK(has_pattern(to_a.frames.at(0), 1));
  CHECK(has_pattern(to_b.frames.at(0), 1));

  b->set_membership({.gid = group, .joined = false});
  REQUIRE(send_to(*a.port, to_group(group), 2));
  a->flush();
  CHECK(a->poll_receive(to_a, many) == 1);
  CHECK(b->poll_receive(to_b, many) == 0);
}

TEST_CASE(
    "who asks a group hears its own question before the answers, whose ring is looked at first") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns a = open_port(path);
  const PortWithQpns b = open_port(path);
  const Gid group = gid("239.1.1.1");
  a->set_membership({.gid = group, .joined = true});
  b->set_membership({.gid = group, .joined = true});
  for (std::uint64_t question = 1; question < 10; question += 2) {
    REQUIRE(send_to(*a.port, to_group(group), question));
    a->flush();
    RecordingHandler to_a, to_b;
    CHECK(b->poll_receive(to_b, many) > 0);
    REQUIRE(send_to(*b.port, to_group(group), question + 1));
    b->flush();
    CHECK(a->poll_receive(to_a, many) == 2);
    CHECK(has_pattern(to_a.frames.at(0), question));
    CHECK(has_pattern(to_a.frames.at(1), question + 1));
  }
}

TEST_CASE("a frame to QPN 1 is copied to all that have it open at that address") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns a = open_port(path);
  const PortWithQpns b = open_port(path);
  const PortWithQpns c = open_port(path);
  b->set_membership({.gid = gid("127.0.0.1"), .joined = true});
  c->set_membership({.gid = gid("127.0.0.2"), .joined = true});
  const FrameRoute route{.source = {}, .destination = gid("127.0.0.2"), .destination_qpn = qpn_gsi};
  REQUIRE(send_to(*a.port, route, 1));
  a->flush();
  RecordingHandler handler;
  CHECK(b->poll_receive(handler, many) == 0);
  CHECK(c->poll_receive(handler, many) == 1);
}

TEST_CASE("who leaves the fabric is a member of nothing") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns a = open_port(path);
  const Gid group = gid("ff0e::1");
  {
    const PortWithQpns b = open_port(path);
    b->set_membership({.gid = group, .joined = true});
    CHECK(a.port->fabric().members_of(group).size() == 1);
  }
  CHECK(a.port->fabric().members_of(group).empty());
  REQUIRE(send_to(*a.port, to_group(group), 1));
  CHECK(a->statistics().frames_lost == 1);
}

TEST_CASE("a datagram waits for a member that doesn't drain, but not for ever; others get theirs") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns a = open_port(path);
  const PortWithQpns stuck = open_port(path);
  const PortWithQpns b = open_port(path);
  const Gid group = gid("239.1.1.1");
  stuck->set_membership({.gid = group, .joined = true});
  b->set_membership({.gid = group, .joined = true});
  Time now{};
  a->begin_batch(now);
  RecordingHandler to_b;
  std::uint64_t sent = 0;
  while (send_to(*a.port, to_group(group), sent)) {
    ++sent;
    a->flush();
    b->poll_receive(to_b, many);
  }
  REQUIRE(a->next_deadline() != time_never);
  now = a->next_deadline();
  a->begin_batch(now);
  // The one that waited and those behind it reach the member that drains.
  for (int i = 0; i < 3; ++i) {
    REQUIRE(send_to(*a.port, to_group(group), sent++));
    a->flush();
    b->poll_receive(to_b, many);
  }
  CHECK(to_b.frames.size() == sent);
  CHECK(a->statistics().frames_lost == 3);
  CHECK(a->next_deadline() == time_never);
}

}  // namespace
}  // namespace verbena::ports
