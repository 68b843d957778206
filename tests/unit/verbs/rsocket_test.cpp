// What rsockets are made of, without a device: the numbers on the wire, lists of memory, how long a
// call waits, and waiting for several sockets at once.
#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>

#include "verbs/event_fd.h"
#include "verbs/rdma_cm/rsocket/memory.h"
#include "verbs/rdma_cm/rsocket/patience.h"
#include "verbs/rdma_cm/rsocket/poll.h"
#include "verbs/rdma_cm/rsocket/socket.h"
#include "verbs/rdma_cm/rsocket/wire.h"

namespace verbena::rsocket {

namespace {

/// Is ready for what a test says, and remembers how it was asked.
class FakeSocket final : public Socket {
 public:
  [[nodiscard]] int number() const override { return news_.fd(); }
  [[nodiscard]] Errno bind(const sockaddr&, socklen_t) override { return ENOTSUP; }
  [[nodiscard]] Errno listen(int) override { return ENOTSUP; }
  [[nodiscard]] Result<SocketPtr, Errno> accept() override { return std::unexpected(ENOTSUP); }
  [[nodiscard]] Errno connect(const sockaddr&, socklen_t) override { return ENOTSUP; }
  [[nodiscard]] Errno shutdown(int) override { return ENOTSUP; }
  void close() override {}
  [[nodiscard]] Result<std::size_t, Errno> send(std::span<const iovec>, int, const sockaddr*,
                                                socklen_t) override {
    return std::unexpected(ENOTSUP);
  }
  [[nodiscard]] Result<std::size_t, Errno> receive(std::span<const iovec>, int,
                                                   const Address&) override {
    return std::unexpected(ENOTSUP);
  }
  [[nodiscard]] short ready() override { return events; }
  void watch(std::vector<pollfd>& list) override {
    list.push_back({.fd = news_.fd(), .events = POLLIN, .revents = 0});
    events = static_cast<short>(events | events_when_watched);
  }
  void look() override {
    ++looks;
    events = static_cast<short>(events | events_when_looked_at);
  }
  [[nodiscard]] Errno name(sockaddr_storage&) override { return ENOTSUP; }
  [[nodiscard]] Errno peer(sockaddr_storage&) override { return ENOTSUP; }
  [[nodiscard]] Errno set_option(int level, int option, const void* value,
                                 socklen_t length) override {
    return is_time_limit(level, option) ? set_time_limit(option, value, length) : ENOPROTOOPT;
  }
  [[nodiscard]] Errno option(int level, int option, void* value, socklen_t& length) override {
    return is_time_limit(level, option) ? time_limit(option, value, length) : ENOPROTOOPT;
  }
  void notify() { news_.signal(); }
  [[nodiscard]] Patience to_receive(int flags) const { return patience_to_receive(flags); }

  short events = 0;
  short events_when_watched = 0;
  short events_when_looked_at = 0;
  int looks = 0;

 private:
  verbs::EventFd news_;
};

/// In the table of sockets as long as it lives.
struct Registered {
  std::shared_ptr<FakeSocket> socket = std::make_shared<FakeSocket>();
  Registered() { insert(socket); }
  ~Registered() { static_cast<void>(take(socket->number())); }
  FakeSocket* operator->() const { return socket.get(); }
  [[nodiscard]] pollfd entry(short events) const {
    return {.fd = socket->number(), .events = events, .revents = -1};
  }
};

constexpr int forever = -1;

}  // namespace

TEST_CASE("an immediate value is an operation and its value, numbered as rdma-core does") {
  CHECK(encode({.operation = Operation::data, .value = 65536}) == 0x0001'0000);
  CHECK(encode({.operation = Operation::sgl, .value = 0xFFFF}) == 0x8000'FFFF);
  CHECK(encode({.operation = Operation::map, .value = 3}) == 0xC000'0003);
  CHECK(encode({.operation = Operation::control, .value = 0}) == 0xE000'0000);
  CHECK(static_cast<int>(Control::disconnect) == 0);
  CHECK(static_cast<int>(Control::keepalive) == 1);
  CHECK(static_cast<int>(Control::shutdown) == 2);
  for (std::uint32_t operation = 0; operation < 8; ++operation) {
    for (const std::uint32_t value : {0U, 1U, 0x1234'5678U, 0x1FFF'FFFFU}) {
      const Message message = decode(operation << operation_shift | value);
      CHECK(static_cast<std::uint32_t>(message.operation) == operation);
      CHECK(message.value == value);
      CHECK(encode(message) == (operation << operation_shift | value));
    }
  }
}

TEST_CASE("what both ends tell with REQ and REP lies where rdma-core reads it") {
  ConnectData data;
  data.credits = 0x0180;
  data.map_entries = 7;
  data.targets.address = 0x0102'0304'0506'0708;
  data.targets.key = 0x1112'1314;
  data.targets.length = 2;
  data.first_half.address = 0x2122'2324'2526'2728;
  data.first_half.length = 0x1'0000;
  const std::array<unsigned char, sizeof data> expected{
      1,    2,    0x01, 0x80, 0,    0,    0,    7,     // version, flags, credits, entries
      1,    2,    3,    4,    5,    6,    7,    8,     // targets
      0x11, 0x12, 0x13, 0x14, 0,    0,    0,    2,     //
      0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,  // the first half
      0,    0,    0,    0,    0,    1,    0,    0};
  CHECK(std::memcmp(&data, expected.data(), sizeof data) == 0);
}

TEST_CASE("numbers of map entries survive their byte, rounded down to what it can say") {
  for (std::uint32_t entries = 0; entries < 0x8000; ++entries) {
    const std::uint16_t again =
        map_entries(scaled_map_entries(static_cast<std::uint16_t>(entries)));
    // Up to 128 exactly, then in steps of 256.
    CHECK(again == (entries < 256 ? std::min(entries, 128U) : entries & ~0xFFU));
  }
}

TEST_CASE("an offer from a peer of the other byte order is read backwards") {
  Sge sge{.address = 0x0102'0304'0506'0708, .key = 0x0A0B'0C0D, .length = 0x0000'0100};
  swap_bytes(sge);
  CHECK(sge == Sge{.address = 0x0807'0605'0403'0201, .key = 0x0D0C'0B0A, .length = 0x0001'0000});
}

TEST_CASE("a list of memory is walked through as one piece, empty parts left out") {
  std::array<std::byte, 10> bytes{};
  const std::array<iovec, 4> parts{{{.iov_base = bytes.data(), .iov_len = 0},
                                    {.iov_base = bytes.data(), .iov_len = 3},
                                    {.iov_base = bytes.data() + 5, .iov_len = 0},
                                    {.iov_base = bytes.data() + 6, .iov_len = 4}}};
  CHECK(total_of(parts) == 7);
  Parts walk(parts);
  const auto first = walk.next(2);
  CHECK((first.data() == bytes.data() && first.size() == 2));
  const auto rest = walk.next(100);
  CHECK((rest.data() == bytes.data() + 2 && rest.size() == 1));
  const auto last = walk.next(100);
  CHECK((last.data() == bytes.data() + 6 && last.size() == 4));
}

TEST_CASE("patience is none, endless, or over at some time") {
  using std::chrono::milliseconds;
  const milliseconds hour = std::chrono::hours(1);
  CHECK(Patience::none().is_over());
  CHECK(Patience::none().left(hour) == milliseconds(0));
  CHECK_FALSE(Patience::endless().is_over());
  CHECK(Patience::endless().left(milliseconds(200)) == milliseconds(200));
  CHECK_FALSE(Patience::limited(milliseconds(0)).is_over());
  const Patience long_one = Patience::limited(2 * hour);
  CHECK_FALSE(long_one.is_over());
  CHECK(long_one.left(hour) == hour);
  CHECK(long_one.left(3 * hour) > hour);
}

TEST_CASE("time limits of a socket are set and told, and count for calls that may wait") {
  FakeSocket socket;
  const auto set = [&](long seconds, long microseconds) {
    const timeval limit{.tv_sec = seconds, .tv_usec = microseconds};
    return socket.set_option(SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  };
  CHECK(set(0, 1'000'000) == EDOM);
  CHECK(set(0, -1) == EDOM);
  const int number = 5;
  CHECK(socket.set_option(SOL_SOCKET, SO_RCVTIMEO, &number, sizeof number) == EINVAL);
  CHECK(socket.to_receive(0).left(std::chrono::hours(9)) == std::chrono::hours(9));

  // Rounded up to milliseconds: never shorter than asked for.
  CHECK(set(3600, 1) == 0);
  timeval told{};
  socklen_t length = sizeof told;
  CHECK(socket.option(SOL_SOCKET, SO_RCVTIMEO, &told, length) == 0);
  CHECK((told.tv_sec == 3600 && told.tv_usec == 1000));
  CHECK(socket.option(SOL_SOCKET, SO_SNDTIMEO, &told, length) == 0);
  CHECK((told.tv_sec == 0 && told.tv_usec == 0));
  CHECK(socket.to_receive(0).left(std::chrono::hours(9)) < std::chrono::hours(2));
  CHECK(socket.to_receive(MSG_DONTWAIT).is_over());
  socket.set_status_flags(O_NONBLOCK);
  CHECK(socket.to_receive(0).is_over());
}

TEST_CASE("poll() tells what was asked for, and always what is broken") {
  const Registered reader;
  const Registered broken;
  reader->events = POLLIN | POLLOUT;
  broken->events = POLLIN | POLLHUP;
  std::array<pollfd, 3> list{reader.entry(POLLIN), broken.entry(POLLOUT),
                             pollfd{.fd = -1, .events = POLLIN, .revents = -1}};
  CHECK(poll(list, forever) == Result<int, Errno>(2));
  CHECK(list[0].revents == POLLIN);
  CHECK(list[1].revents == POLLHUP);
  CHECK(list[2].revents == 0);
  CHECK(reader->looks == 0);

  reader->events = broken->events = 0;
  CHECK(poll(list, 0) == Result<int, Errno>(0));
  CHECK((list[0].revents == 0 && list[1].revents == 0));
}

TEST_CASE("poll() waits for sockets of ours and of the kernel's together") {
  const Registered ours;
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  std::array<pollfd, 2> list{ours.entry(POLLIN),
                             pollfd{.fd = pipe[0], .events = POLLIN, .revents = 0}};
  REQUIRE(::write(pipe[1], "x", 1) == 1);
  CHECK(poll(list, forever) == Result<int, Errno>(1));
  CHECK((list[0].revents == 0 && list[1].revents == POLLIN));
  ::close(pipe[0]);
  ::close(pipe[1]);
  CHECK(poll(list, forever) == Result<int, Errno>(1));
  CHECK(list[1].revents == POLLNVAL);
}

TEST_CASE("poll() misses nothing that comes while it goes to sleep, and looks when it is woken") {
  const Registered socket;
  std::array<pollfd, 1> list{socket.entry(POLLIN)};
  // Between the first look and the wait: it has told nobody.
  socket->events_when_watched = POLLIN;
  CHECK(poll(list, forever) == Result<int, Errno>(1));
  CHECK(socket->looks == 0);

  socket->events = socket->events_when_watched = 0;
  socket->events_when_looked_at = POLLIN;
  socket->notify();
  CHECK(poll(list, forever) == Result<int, Errno>(1));
  CHECK(socket->looks == 1);
}

TEST_CASE("a number names its socket until it is taken from the table") {
  const auto socket = std::make_shared<FakeSocket>();
  CHECK(find(socket->number()) == nullptr);
  insert(socket);
  CHECK(find(socket->number()) == socket);
  CHECK(take(socket->number()) == socket);
  CHECK(find(socket->number()) == nullptr);
  CHECK(take(socket->number()) == nullptr);
}

}  // namespace verbena::rsocket
