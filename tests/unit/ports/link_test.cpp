// Links by UNIX sockets: who connects and who listens, frames of all lengths, an end that doesn't
// drain, one that vanishes, and bytes that are none of QEMU's. Time is an argument.
#include "ports/link.h"

#include <array>
#include <boost/endian/buffers.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include "ports/link_port.h"
#include "ports/link_socket.h"
#include "ports/sys.h"
#include "proto/roce/gid.h"
#include "tests/unit/ports/support.h"

namespace verbena::ports {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

Result<std::unique_ptr<Link>, std::string> try_open(const std::string& text) {
  return Link::open("verbena0", *LinkPlace::from_text(text));
}

std::unique_ptr<Link> open(const std::string& text) {
  auto link = try_open(text);
  REQUIRE(link);
  return std::move(*link);
}

Bytes frame_of(std::size_t bytes) {
  Bytes frame(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    frame[i] = static_cast<std::byte>(i * 7 + bytes);
  }
  return frame;
}

bool send(Link& link, const Bytes& frame) {
  const MutableBytes room = link.reserve(frame.size());
  if (room.size() != frame.size()) {
    return false;
  }
  copy_bytes(room, frame);
  link.commit();
  link.flush();
  return true;
}

std::optional<Bytes> receive(Link& link) {
  const auto frame = link.receive();
  return frame ? std::optional(Bytes(frame->begin(), frame->end())) : std::nullopt;
}

/// An end that speaks in bytes.
sys::Fd connect_to(const std::string& path) {
  auto socket = sys::unix_stream_socket();
  REQUIRE(socket);
  REQUIRE(sys::connect_unix(socket->get(), path) == 0);
  return std::move(*socket);
}

Bytes with_length(std::uint32_t length, const Bytes& frame) {
  const boost::endian::big_uint32_buf_t head(length);
  Bytes bytes(sizeof(head) + frame.size());
  write_struct(MutableBytes(bytes), head);
  copy_bytes(MutableBytes(bytes).subspan(sizeof(head)), frame);
  return bytes;
}

/// Takes what comes.
class Deaf final : public NetworkFrameHandler {
 public:
  void on_network_frame(const NetworkFrame& /*frame*/) override {}
  void on_aside(ByteView /*frame*/, FrameWay /*way*/) override {}
};

}  // namespace

TEST_CASE("links are named by what is at the other end") {
  CHECK(LinkPlace::from_text("qemu:/tmp/wire")->to_text() == "qemu:/tmp/wire");
  CHECK(LinkPlace::from_text("qemu-dgram:/tmp/a,/tmp/b")->to_text() == "qemu-dgram:/tmp/a,/tmp/b");
  CHECK(LinkPlace::from_text("tap:wire0")->to_text() == "tap:wire0");
  CHECK(LinkPlace::from_text("qemu:wire")->path.front() == '/');
  const std::string long_path(200, 'x');
  for (const std::string& text :
       {std::string(), std::string("/tmp/wire"), std::string("qemu:"), std::string("qemu:/tmp/"),
        std::string("tap:"), std::string("tap:a/b"), std::string("tap:sixteen_letters_"),
        std::string("qemu-dgram:/tmp/a"), std::string("qemu-dgram:,/tmp/b"),
        std::string("qemu-dgram:/tmp/a,/tmp/a"), "qemu:/" + long_path}) {
    INFO(text);
    const auto place = LinkPlace::from_text(text);
    REQUIRE_FALSE(place);
    CHECK_FALSE(place.error().empty());
  }
}

TEST_CASE("the first end listens, the second connects, and frames of all lengths cross") {
  const test::TemporaryDirectory scratch;
  const std::string path = scratch / "wire";
  auto a = open("qemu:" + path);
  CHECK_FALSE(a->is_up());
  CHECK(std::filesystem::is_socket(path));
  CHECK((std::filesystem::status(path).permissions() & std::filesystem::perms::others_all) ==
        std::filesystem::perms::none);
  auto b = open("qemu:" + path);
  CHECK(b->is_up());
  CHECK_FALSE(receive(*a));
  CHECK(a->is_up());
  // Nobody else can come in.
  CHECK_FALSE(std::filesystem::exists(path));
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{14}, std::size_t{60},
                                  std::size_t{9014}, link_frame_bytes_max}) {
    REQUIRE(send(*a, frame_of(bytes)));
    REQUIRE(send(*b, frame_of(bytes)));
    Bytes at_b;
    Bytes at_a;
    // The longest may not fit the socket at once.
    for (int i = 0; i < 10 && (at_a.empty() || at_b.empty()); ++i) {
      at_b = at_b.empty() ? receive(*b).value_or(Bytes()) : at_b;
      at_a = at_a.empty() ? receive(*a).value_or(Bytes()) : at_a;
      a->flush();
      b->flush();
    }
    CHECK(at_b == frame_of(bytes));
    CHECK(at_a == frame_of(bytes));
  }
}

TEST_CASE("an end that doesn't drain holds the sender back, and loses nothing") {
  const test::TemporaryDirectory scratch;
  auto a = open("qemu:" + (scratch / "wire"));
  auto b = open("qemu:" + (scratch / "wire"));
  CHECK_FALSE(receive(*a));
  std::size_t sent = 0;
  while (send(*b, frame_of(1000 + sent % 1000))) {
    ++sent;
    REQUIRE(sent < 100'000);
  }
  CHECK(sent > 100);
  CHECK(b->waits_for_room());
  CHECK(b->counters().times_blocked > 0);
  std::size_t received = 0;
  while (received < sent) {
    b->flush();
    const auto frame = receive(*a);
    REQUIRE(frame);
    REQUIRE(*frame == frame_of(1000 + received % 1000));
    ++received;
  }
  CHECK_FALSE(receive(*a));
  CHECK_FALSE(b->waits_for_room());
  CHECK(send(*b, frame_of(60)));
}

TEST_CASE("an end that vanished is waited for, and the next one is as welcome") {
  const test::TemporaryDirectory scratch;
  const std::string path = scratch / "wire";
  Time now{};
  auto a = open("qemu:" + path);
  for (int round = 0; round < 3; ++round) {
    auto b = open("qemu:" + path);
    CHECK_FALSE(receive(*a));
    REQUIRE(a->is_up());
    REQUIRE(send(*b, frame_of(100)));
    b.reset();
    // What it had sent still comes.
    CHECK(receive(*a) == frame_of(100));
    CHECK_FALSE(receive(*a));
    CHECK_FALSE(a->is_up());
    CHECK_FALSE(a->why_down().empty());
    CHECK(a->reserve(60).empty());
    now = a->next_deadline();
    REQUIRE(now != time_never);
    a->begin_batch(now);
    CHECK(std::filesystem::is_socket(path));
  }
  a.reset();
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("whoever connected comes back when its server does") {
  const test::TemporaryDirectory scratch;
  const std::string path = scratch / "wire";
  auto server = open("qemu:" + path);
  auto client = open("qemu:" + path);
  CHECK_FALSE(receive(*server));
  server.reset();
  CHECK_FALSE(receive(*client));
  CHECK_FALSE(client->is_up());
  server = open("qemu:" + path);
  client->begin_batch(client->next_deadline());
  CHECK(client->is_up());
}

TEST_CASE("who listens makes room for another who took the place") {
  const test::TemporaryDirectory scratch;
  const std::string path = scratch / "wire";
  auto link = open("qemu:" + path);
  // As QEMU does with `server=on`.
  REQUIRE(std::filesystem::remove(path));
  auto server = sys::unix_stream_socket();
  REQUIRE(server);
  REQUIRE(sys::bind_unix(server->get(), path) == 0);
  REQUIRE(sys::listen(server->get(), 1) == 0);
  link->begin_batch(link->next_deadline());
  CHECK(link->is_up());
  link.reset();
  // The file was not ours.
  CHECK(std::filesystem::is_socket(path));
}

TEST_CASE("a third program is told that the link is taken") {
  const test::TemporaryDirectory scratch;
  const std::string name = "qemu:" + (scratch / "wire");
  auto a = open(name);
  auto b = open(name);
  CHECK_FALSE(receive(*a));
  const auto c = try_open(name);
  REQUIRE_FALSE(c);
  CHECK_THAT(c.error(), Catch::Contains("another program of yours is on the link"));
}

TEST_CASE("what a dead program left is replaced, what isn't a socket is not") {
  const test::TemporaryDirectory scratch;
  const std::string path = scratch / "wire";
  {
    auto socket = sys::unix_stream_socket();
    REQUIRE(sys::bind_unix(socket->get(), path) == 0);
  }
  CHECK(std::filesystem::is_socket(path));
  CHECK_FALSE(open("qemu:" + path)->is_up());
  std::ofstream(path) << "a file";
  const auto link = try_open("qemu:" + path);
  REQUIRE_FALSE(link);
  CHECK_THAT(link.error(), Catch::Contains(path));
  CHECK(std::filesystem::is_regular_file(path));
}

TEST_CASE("frames are cut anywhere by the stream, and come whole") {
  const test::TemporaryDirectory scratch;
  const std::string path = scratch / "wire";
  auto link = open("qemu:" + path);
  const sys::Fd peer = connect_to(path);
  CHECK_FALSE(receive(*link));
  Bytes stream;
  for (const std::size_t bytes : {0U, 1U, 60U, 1500U, 3U}) {
    const Bytes frame = with_length(static_cast<std::uint32_t>(bytes), frame_of(bytes));
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  const std::size_t step = GENERATE(1U, 3U, 64U, 5000U);
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < stream.size(); i += step) {
    const ByteView piece = ByteView(stream).subspan(i, std::min(step, stream.size() - i));
    REQUIRE(sys::send(peer.get(), piece) == static_cast<int>(piece.size()));
    while (const auto frame = receive(*link)) {
      CHECK(*frame == frame_of(frame->size()));
      sizes.push_back(frame->size());
      if (step == 5000) {
        CHECK(link->pending() == (sizes.size() < 5));
      }
    }
  }
  CHECK(sizes == std::vector<std::size_t>{0, 1, 60, 1500, 3});
}

TEST_CASE("a length that no frame has ends the connection, and nothing else") {
  const test::TemporaryDirectory scratch;
  const std::string path = scratch / "wire";
  auto link = open("qemu:" + path);
  sys::Fd peer = connect_to(path);
  CHECK_FALSE(receive(*link));
  const std::uint32_t length =
      GENERATE(std::uint32_t{link_frame_bytes_max + 1}, 0x7FFF'FFFFU, 0xFFFF'FFFFU);
  REQUIRE(sys::send(peer.get(), with_length(length, frame_of(50))) > 0);
  CHECK_FALSE(receive(*link));
  CHECK_FALSE(link->is_up());
  CHECK_THAT(link->why_down(), Catch::Contains("none of QEMU's"));
  std::array<std::byte, 1> nothing{};
  CHECK(sys::receive(peer.get(), nothing) <= 0);
  link->begin_batch(link->next_deadline());
  peer = connect_to(path);
  REQUIRE(sys::send(peer.get(), with_length(50, frame_of(50))) > 0);
  CHECK(receive(*link) == frame_of(50));
}

TEST_CASE("datagrams are frames, whoever starts first") {
  const test::TemporaryDirectory scratch;
  const std::string own = scratch / "own";
  const std::string other = scratch / "other";
  auto a = open("qemu-dgram:" + own + "," + other);
  REQUIRE(send(*a, frame_of(60)));
  CHECK(a->counters().frames_lost == 1);
  auto b = open("qemu-dgram:" + other + "," + own);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{60}, std::size_t{9014}}) {
    REQUIRE(send(*a, frame_of(bytes)));
    CHECK(receive(*b) == frame_of(bytes));
    REQUIRE(send(*b, frame_of(bytes)));
    CHECK(receive(*a) == frame_of(bytes));
  }
  CHECK_FALSE(receive(*a));
  CHECK_FALSE(try_open("qemu-dgram:" + own + "," + other));
  b.reset();
  CHECK_FALSE(std::filesystem::exists(other));
  b = open("qemu-dgram:" + other + "," + own);
  REQUIRE(send(*a, frame_of(60)));
  CHECK(receive(*b) == frame_of(60));
}

TEST_CASE("a queue of datagrams that is full holds the sender back") {
  const test::TemporaryDirectory scratch;
  const std::string own = scratch / "own";
  const std::string other = scratch / "other";
  auto a = open("qemu-dgram:" + own + "," + other);
  auto b = open("qemu-dgram:" + other + "," + own);
  std::size_t sent = 0;
  while (send(*a, frame_of(100 + sent)) && sent < 100'000) {
    ++sent;
  }
  REQUIRE(sent < 100'000);
  CHECK(a->next_deadline() != time_never);
  for (std::size_t i = 0; i < sent; ++i) {
    CHECK(receive(*b) == frame_of(100 + i));
    a->flush();
  }
  CHECK(send(*a, frame_of(60)));
}

TEST_CASE("a neighbour that is asked for keeps nobody awake while the link is out") {
  const test::TemporaryDirectory scratch;
  const std::string path = scratch / "wire";
  auto port = LinkPort::open({.device = "verbena0",
                              .link = "qemu:" + path,
                              .mac = {{0x02, 0, 0, 0, 0, 1}},
                              .addresses = {*inet::LinkAddress::from_text("10.7.0.1/24")}});
  REQUIRE(port);
  LinkPort& own = **port;
  sys::Fd peer = connect_to(path);
  Deaf handler;
  Time now{};
  own.begin_batch(now);
  CHECK(own.poll_receive(handler, 1) == 0);
  own.begin_batch(now);
  const FrameRoute to_neighbour{.source = *roce::gid_from_text("10.7.0.1"),
                                .destination = *roce::gid_from_text("10.7.0.2")};
  CHECK(own.reserve(to_neighbour, 60).empty());
  CHECK(own.next_deadline() <= now);
  CHECK(own.poll_receive(handler, 1) == 0);
  CHECK(own.next_deadline() > now);
  peer.reset();
  CHECK(own.poll_receive(handler, 1) == 0);
  // When the next question would be due, and it can't be asked.
  now += 2s;
  own.begin_batch(now);
  CHECK(own.next_deadline() > now);
}

}  // namespace verbena::ports
