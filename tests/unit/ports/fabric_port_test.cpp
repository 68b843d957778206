// The fabric port: frames reach the owner of their destination QPN, and nothing that another
// process does or fails to do stops the rest.
#include "ports/fabric_port.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "tests/unit/ports/fabric_fixture.h"

namespace verbena::ports {
namespace {

using namespace std::chrono_literals;
using test::has_pattern;
using test::open_port;
using test::PortWithQpns;
using test::RecordingHandler;
using test::send;
using test::TemporaryDirectory;

constexpr std::uint32_t many = 1U << 20;

bool is_readable(int fd) {
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&ready, 1, 0) == 1;
}

TEST_CASE("frames go to the process that owns their destination QPN") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns a = open_port(path);
  const PortWithQpns b = open_port(path);
  const PortWithQpns c = open_port(path);
  REQUIRE(send(*a.port, b.first, 60, 1));
  REQUIRE(send(*a.port, Qpn{to_value(c.first) + 4095}, 1500, 2));
  REQUIRE(send(*a.port, a.first, 100, 3));
  a->flush();

  RecordingHandler to_a, to_b, to_c;
  CHECK(a->poll_receive(to_a, many) == 1);
  CHECK(b->poll_receive(to_b, many) == 1);
  CHECK(c->poll_receive(to_c, many) == 1);
  CHECK(has_pattern(to_b.frames.at(0), 1));
  CHECK(has_pattern(to_c.frames.at(0), 2));
  CHECK(to_c.frames.at(0).size() == 1500);
  CHECK(has_pattern(to_a.frames.at(0), 3));
  CHECK(a->statistics().frames_lost == 0);
}

TEST_CASE("a frame for a QPN that nobody owns is taken, lost and counted") {
  const TemporaryDirectory directory;
  const PortWithQpns a = open_port(directory / "a.fabric");
  REQUIRE(send(*a.port, Qpn{0x800000}, 4200, 1));
  REQUIRE(send(*a.port, qpn_gsi, 300, 1));
  a->flush();
  CHECK(a->statistics().frames_lost == 2);
}

TEST_CASE("a full ring holds its sender back, other ways stay open, and nothing is lost") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns a = open_port(path);
  const PortWithQpns stopped = open_port(path);
  const PortWithQpns lively = open_port(path);
  std::uint64_t sent = 0;
  while (send(*a.port, stopped.first, 1000, sent)) {
    ++sent;
  }
  a->flush();
  CHECK(sent > 10);
  CHECK(a->statistics().times_blocked == 1);
  REQUIRE(send(*a.port, lively.first, 1000, 99));
  CHECK_FALSE(send(*a.port, stopped.first, 1000, sent));
  CHECK(a->statistics().times_blocked == 1);
  a->flush();
  RecordingHandler to_lively;
  CHECK(lively->poll_receive(to_lively, many) == 1);

  RecordingHandler to_stopped;
  CHECK(stopped->poll_receive(to_stopped, many) == sent);
  REQUIRE(send(*a.port, stopped.first, 1000, sent));
  a->flush();
  stopped->poll_receive(to_stopped, many);
  REQUIRE(to_stopped.frames.size() == sent + 1);
  for (std::uint64_t i = 0; i <= sent; ++i) {
    CHECK(has_pattern(to_stopped.frames[i], i));
  }
  CHECK(a->statistics().frames_lost == 0);
}

TEST_CASE("a sleeper is woken by a frame, one that is awake is not") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns a = open_port(path);
  const PortWithQpns b = open_port(path);
  REQUIRE(send(*a.port, b.first, 60, 0));
  a->flush();
  CHECK_FALSE(is_readable(b->fd()));
  // A frame that came before is no reason to sleep, announced ring or not.
  CHECK_FALSE(b->prepare_sleep());
  RecordingHandler handler;
  b->poll_receive(handler, many);
  REQUIRE(b->prepare_sleep());
  CHECK_FALSE(is_readable(b->fd()));

  REQUIRE(send(*a.port, b.first, 60, 1));
  CHECK_FALSE(is_readable(b->fd()));
  a->flush();
  CHECK(is_readable(b->fd()));
  CHECK(a->statistics().wakes == 1);
  b->finish_sleep();
  CHECK_FALSE(is_readable(b->fd()));
  REQUIRE(send(*a.port, b.first, 60, 2));
  a->flush();
  CHECK_FALSE(is_readable(b->fd()));
  CHECK(b->poll_receive(handler, many) == 2);
}

TEST_CASE("what a living process has yet to read isn't lost, until it stands still for too long") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns a = open_port(path);
  PortWithQpns b = open_port(path);
  FrameRoute route;
  route.destination_qpn = b.first;
  const Time start = Time{} + 1h;
  a->begin_batch(start);
  CHECK_FALSE(a->is_unread(route));
  REQUIRE(send(*a.port, b.first, 60, 1));
  REQUIRE(send(*a.port, b.first, 60, 2));
  a->flush();
  CHECK(a->is_unread(route));
  FrameRoute to_itself;
  to_itself.destination_qpn = a.first;
  CHECK_FALSE(a->is_unread(to_itself));

  a->begin_batch(start + 2s);
  CHECK(a->is_unread(route));
  RecordingHandler handler;
  CHECK(b->poll_receive(handler, 1) == 1);
  CHECK(a->is_unread(route));
  a->begin_batch(start + 4s);
  CHECK(a->is_unread(route));
  a->begin_batch(start + 5s);
  CHECK_FALSE(a->is_unread(route));

  CHECK(b->poll_receive(handler, many) == 1);
  CHECK_FALSE(a->is_unread(route));
  REQUIRE(send(*a.port, b.first, 60, 3));
  a->flush();
  CHECK(a->is_unread(route));
  b.port.reset();
  CHECK_FALSE(a->is_unread(route));
}

TEST_CASE("a loss is found behind a reader that reads others' frames without end") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  constexpr std::size_t ring_bytes = std::size_t{64} << 10;
  constexpr std::size_t frame_bytes = 1000;
  constexpr std::size_t questions_per_loss = 4;
  const PortWithQpns a = open_port(path, ring_bytes);
  const PortWithQpns b = open_port(path, ring_bytes);
  FrameRoute route;
  route.destination_qpn = b.first;
  a->begin_batch(Time{} + 1h);
  RecordingHandler handler;
  // One more is always there than was read.
  REQUIRE(send(*a.port, b.first, frame_bytes, 0));
  const auto losses = [&](std::size_t questions) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < questions; ++i) {
      REQUIRE(send(*a.port, b.first, frame_bytes, i));
      a->flush();
      REQUIRE(b->poll_receive(handler, 1) == 1);
      count += a.port->is_unread(route) ? 0 : 1;
    }
    return count;
  };
  constexpr std::size_t questions = ring_bytes / frame_bytes;
  // What was there at the first question may still be.
  CHECK(losses(questions / 2) == 0);
  static_cast<void>(losses(questions));
  CHECK(losses(40) == 10);

  // Of several that ask in turn, each one has its share of the losses, and none has them all.
  std::array<std::size_t, questions_per_loss> shares{};
  for (std::uint32_t i = 0; i < 40 * shares.size(); ++i) {
    REQUIRE(send(*a.port, b.first, frame_bytes, i));
    a->flush();
    REQUIRE(b->poll_receive(handler, 1) == 1);
    const auto number = i % static_cast<std::uint32_t>(shares.size());
    route.destination_qpn = Qpn{to_value(b.first) + 1 + number};
    shares.at(number) += a.port->is_unread(route) ? 0 : 1;
  }
  CHECK(shares == std::array<std::size_t, questions_per_loss>{10, 10, 10, 10});
}

TEST_CASE("a blocked sender that sleeps is woken when there is room, and doesn't sleep over it") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns a = open_port(path);
  const PortWithQpns b = open_port(path);
  while (send(*a.port, b.first, 1000, 0)) {
  }
  a->flush();
  RecordingHandler handler;
  SECTION("asleep when the room comes") {
    REQUIRE(a->prepare_sleep());
    b->poll_receive(handler, many);
    CHECK(is_readable(a->fd()));
  }
  SECTION("about to sleep when the room has come") {
    b->poll_receive(handler, many);
    CHECK_FALSE(a->prepare_sleep());
    // Once: a sender that has lost interest must not be kept awake for ever.
    CHECK(a->prepare_sleep());
  }
}

TEST_CASE("when a process leaves, frames to it are lost and those it had sent arrive") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns a = open_port(path);
  RecordingHandler handler;
  Qpn gone{};
  {
    const PortWithQpns b = open_port(path);
    gone = b.first;
    REQUIRE(send(*a.port, gone, 60, 1));
    REQUIRE(send(*b.port, a.first, 60, 2));
    a->flush();
    b->flush();
  }
  REQUIRE(send(*a.port, gone, 60, 3));
  a->flush();
  CHECK(a->statistics().frames_lost == 1);
  CHECK(a->poll_receive(handler, many) == 1);
  CHECK(has_pattern(handler.frames.at(0), 2));

  // Another process in the same slot, with other QPNs, is reached through another ring.
  const PortWithQpns c = open_port(path);
  REQUIRE(c.first != gone);
  REQUIRE(send(*a.port, c.first, 60, 4));
  a->flush();
  RecordingHandler to_c;
  CHECK(c->poll_receive(to_c, many) == 1);
  CHECK(has_pattern(to_c.frames.at(0), 4));
}

TEST_CASE("a budget bounds a batch, and a busy sender doesn't starve another") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns busy = open_port(path);
  const PortWithQpns modest = open_port(path);
  const PortWithQpns target = open_port(path);
  for (std::uint64_t i = 0; i < 50; ++i) {
    REQUIRE(send(*busy.port, target.first, 60, i));
  }
  REQUIRE(send(*modest.port, target.first, 61, 1));
  busy->flush();
  modest->flush();
  RecordingHandler handler;
  CHECK(target->poll_receive(handler, 8) == 8);
  CHECK(target->poll_receive(handler, 8) == 8);
  const auto from_modest =
      std::ranges::count_if(handler.frames, [](const auto& frame) { return frame.size() == 61; });
  CHECK(from_modest == 1);
}

TEST_CASE("a ring whose bytes make no sense is given up, counted, and made anew") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns victim = open_port(path);
  // A vandal: a member of the fabric that writes its ring itself.
  const auto vandal = test::join_fabric(path);
  const auto ring = vandal->create_ring(victim.port->fabric().self());
  REQUIRE(ring);
  ring->header().head = 64;
  write_struct(ring->data(), std::uint32_t{5'000'000});
  RecordingHandler handler;
  CHECK(victim->poll_receive(handler, many) == 0);
  CHECK(victim->prepare_sleep());
  victim->finish_sleep();
  CHECK(victim->statistics().broken_rings == 1);

  // A sender whose ring was given up learns of it when the ring is full at the latest.
  const PortWithQpns honest = open_port(path);
  REQUIRE(send(*honest.port, victim.first, 60, 1));
  honest->flush();
  CHECK(victim->poll_receive(handler, many) == 1);
}

TEST_CASE("rings of dead partners are unmapped before sleeping") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns a = open_port(path);
  RecordingHandler handler;
  const auto mappings = [&] {
    std::ifstream maps("/proc/self/maps");
    std::string line;
    int count = 0;
    while (std::getline(maps, line)) {
      count += line.find(directory.path()) != std::string::npos ? 1 : 0;
    }
    return count;
  };
  const int alone = mappings();
  for (int i = 0; i < 20; ++i) {
    const PortWithQpns b = open_port(path);
    REQUIRE(send(*a.port, b.first, 60, 1));
    REQUIRE(send(*b.port, a.first, 60, 1));
    a->flush();
    b->flush();
    CHECK(a->poll_receive(handler, many) == 1);
  }
  REQUIRE(a->prepare_sleep());
  CHECK(mappings() == alone);
}

}  // namespace
}  // namespace verbena::ports
