// The fabric's files and tables: joining, refusing, leaving, QPNs, rings, doorbells.
#include "ports/fabric.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "ports/fabric_file.h"
#include "tests/unit/ports/support.h"

namespace verbena::ports {
namespace {

using test::TemporaryDirectory;

constexpr std::size_t ring_bytes = std::size_t{64} << 10;

Fabric::Options options_at(const std::string& path) {
  return {.path = path, .device_name = "verbena0", .ring_bytes = ring_bytes};
}

std::unique_ptr<Fabric> join(const std::string& path) {
  auto fabric = Fabric::join(options_at(path));
  INFO((fabric ? "" : fabric.error()));
  REQUIRE(fabric);
  return std::move(*fabric);
}

std::string join_error(const Fabric::Options& options) {
  const auto fabric = Fabric::join(options);
  REQUIRE_FALSE(fabric);
  return fabric.error();
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

/// Flips a number in the fabric's file as another version or a vandal would have written it.
template <class T>
void poke(const std::string& path, std::size_t offset, T value) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(reinterpret_cast<const char*>(&value), sizeof(value));
  REQUIRE(file.good());
}

TEST_CASE("each member of a fabric has a slot of its own, and the last to leave takes it away") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  auto first = join(path);
  auto second = join(path);
  CHECK(slot_of(first->self()) != slot_of(second->self()));
  const auto members = list_members(path);
  REQUIRE(members);
  REQUIRE(members->size() == 2);
  CHECK(members->front().device_name == "verbena0");
  CHECK(members->front().pid == getpid());

  first.reset();
  CHECK(list_members(path)->size() == 1);
  second.reset();
  CHECK(directory.files().empty());
  CHECK(list_members(path)->empty());
}

TEST_CASE("of members that leave at the same time, one takes the fabric away") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  constexpr int rounds = 200;
  for (int round = 0; round < rounds; ++round) {
    std::array members = {join(path), join(path), join(path)};
    std::barrier together(std::ssize(members));
    std::vector<std::jthread> leavers;
    for (auto& member : members) {
      leavers.emplace_back([&] {
        together.arrive_and_wait();
        member.reset();
      });
    }
    leavers.clear();
    REQUIRE(directory.files().empty());
  }
}

TEST_CASE("a slot that is taken again has another life") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto keeper = join(path);
  auto guest = join(path);
  const SlotLife first_life = guest->self();
  CHECK(keeper->is_current(first_life));
  guest.reset();
  CHECK_FALSE(keeper->is_current(first_life));
  guest = join(path);
  CHECK(slot_of(guest->self()) == slot_of(first_life));
  CHECK(guest->self() != first_life);
  CHECK_FALSE(keeper->is_current(first_life));
  CHECK(keeper->is_current(guest->self()));
}

TEST_CASE("files of a fabric are for their user only") {
  const TemporaryDirectory directory;
  const std::string path = directory / "new/a.fabric";
  const auto fabric = join(path);
  struct stat status{};
  REQUIRE(stat((directory / "new").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const auto ring = fabric->create_ring(fabric->self());
  REQUIRE(ring);
  REQUIRE(stat(ring_path(path, 0, 0, 1).c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("a fabric of another version is refused with both numbers") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto keeper = join(path);
  poke(path, offsetof(FabricHeader, version), std::uint32_t{77});
  const std::string error = join_error(options_at(path));
  CHECK(contains(error, "version 77"));
  CHECK(contains(error, "speaks version " + std::to_string(fabric_version)));
  CHECK(contains(error, "VERBENA_FABRIC"));
  poke(path, offsetof(FabricHeader, version), fabric_version);
}

TEST_CASE("a file that is no fabric is refused") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const std::string content =
      GENERATE(std::string(), std::string("x"), std::string(8192, 'x'), std::string(1 << 20, '\0'));
  std::ofstream(path) << content;
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  CHECK(contains(join_error(options_at(path)), "is not a fabric"));
}

TEST_CASE("a truncated fabric is refused") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto keeper = join(path);
  // A copy: the original is mapped.
  const std::string copy = directory / "b.fabric";
  std::filesystem::copy_file(path, copy);
  std::filesystem::resize_file(copy, sizeof(FabricFile) - 1);
  CHECK(contains(join_error(options_at(copy)), "is not a fabric"));
}

TEST_CASE("a fabric that others could change is refused") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto keeper = join(path);
  REQUIRE(chmod(path.c_str(), 0666) == 0);
  CHECK(contains(join_error(options_at(path)), "mode 0666"));
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  REQUIRE(chmod(directory.path().c_str(), 0755) == 0);
  CHECK(contains(join_error(options_at(path)), "chmod 700"));
  REQUIRE(chmod(directory.path().c_str(), 0700) == 0);
}

TEST_CASE("a fabric in a place that is not one is refused") {
  const TemporaryDirectory directory;
  CHECK(contains(join_error(options_at("/proc/a.fabric")), "/proc"));
  CHECK(contains(join_error(options_at(directory / "no/such/a.fabric")), "No such file"));
  std::ofstream(directory / "file") << "x";
  CHECK(contains(join_error(options_at(directory / "file/a.fabric")), "not a directory"));
  REQUIRE(mkdir((directory / "d.fabric").c_str(), 0700) == 0);
  CHECK(contains(join_error(options_at(directory / "d.fabric")), "Is a directory"));
  REQUIRE(symlink("/dev/null", (directory / "link.fabric").c_str()) == 0);
  CHECK(contains(join_error(options_at(directory / "link.fabric")), "can't open"));
  CHECK(contains(join_error(options_at(directory / std::string(90, 'x'))), "too long"));
}

TEST_CASE("a directory of another user is refused") {
  // Only root can make one for the test; everybody else meets a foreign directory: /.
  if (geteuid() != 0) {
    CHECK(contains(join_error(options_at("/a.fabric")), "belongs to user 0"));
    return;
  }
  const TemporaryDirectory directory;
  REQUIRE(chown(directory.path().c_str(), 12345, 12345) == 0);
  CHECK(contains(join_error(options_at(directory / "a.fabric")), "belongs to user 12345"));
  REQUIRE(chown(directory.path().c_str(), 0, 0) == 0);

  const auto keeper = join(directory / "a.fabric");
  REQUIRE(chown((directory / "a.fabric").c_str(), 12345, 12345) == 0);
  CHECK(contains(join_error(options_at(directory / "a.fabric")), "belongs to user 12345"));
}

int no_space(int /*fd*/, std::uint64_t /*bytes*/) { return -ENOSPC; }

TEST_CASE("no space for the fabric is an error that says how much it needs, and leaves nothing") {
  const TemporaryDirectory directory;
  Fabric::Options options = options_at(directory / "a.fabric");
  options.allocate = &no_space;
  const std::string error = join_error(options);
  CHECK(contains(error, "no space"));
  CHECK(contains(error, "KiB"));
  CHECK(contains(error, "df -h"));
  CHECK(directory.files().empty());
}

TEST_CASE("no space for a ring is an error, and leaves nothing") {
  const TemporaryDirectory directory;
  const auto keeper = join(directory / "a.fabric");
  Fabric::Options options = options_at(directory / "a.fabric");
  options.allocate = &no_space;
  const auto poor = Fabric::join(options);
  REQUIRE(poor);
  const auto before = directory.files().size();
  const auto ring = (*poor)->create_ring(keeper->self());
  REQUIRE_FALSE(ring);
  CHECK(ring.error() == -ENOSPC);
  CHECK(directory.files().size() == before);
  CHECK_FALSE(keeper->has_announcements());
}

TEST_CASE("QPNs of different members never overlap, and come back when a member leaves") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto first = join(path);
  auto second = join(path);
  std::set<std::uint32_t> blocks;
  for (int i = 0; i < 10; ++i) {
    for (Fabric* fabric : {first.get(), second.get()}) {
      const auto block = fabric->take_qpn_block();
      REQUIRE(block);
      CHECK(to_value(*block) % block_qpns == 0);
      CHECK(blocks.insert(to_value(*block)).second);
      CHECK(first->owner_of(Qpn{to_value(*block) + 4095}) == fabric->self());
    }
  }
  CHECK(first->owner_of(qpn_gsi) == SlotLife{});
  CHECK(first->owner_of(qpn_multicast) == SlotLife{});
  CHECK(blocks.count(0) == 0);

  const Qpn of_second = *second->take_qpn_block();
  second.reset();
  CHECK(first->owner_of(of_second) == SlotLife{});
}

TEST_CASE("all QPNs can be taken, and no more") {
  const TemporaryDirectory directory;
  const auto fabric = join(directory / "a.fabric");
  std::uint32_t taken = 0;
  while (fabric->take_qpn_block()) {
    ++taken;
  }
  CHECK(taken == blocks_max - 2);
}

TEST_CASE("every slot can be taken, and the next member is told") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  std::vector<std::unique_ptr<Fabric>> members;
  for (std::uint32_t i = 0; i < slots_max; ++i) {
    members.push_back(join(path));
  }
  CHECK(contains(join_error(options_at(path)), "all 256 slots"));
  members.pop_back();
  CHECK(Fabric::join(options_at(path)));
}

TEST_CASE("a ring reaches its consumer, once, and its file goes when both have it") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto producer = join(path);
  const auto consumer = join(path);
  CHECK_FALSE(consumer->has_announcements());
  const auto ring = producer->create_ring(consumer->self());
  REQUIRE(ring);
  CHECK(ring->data().size() == ring_bytes);
  CHECK(consumer->has_announcements());
  CHECK_FALSE(producer->has_announcements());

  std::uint64_t bad = 0;
  const auto taken = consumer->take_announced_rings(bad);
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].producer == producer->self());
  CHECK(bad == 0);
  CHECK_FALSE(consumer->has_announcements());
  CHECK(consumer->take_announced_rings(bad).empty());
  CHECK_FALSE(std::filesystem::exists(
      ring_path(path, slot_of(producer->self()), slot_of(consumer->self()), 1)));
  // The same memory.
  ring->data()[17] = std::byte{42};
  CHECK(taken[0].data()[17] == std::byte{42});
}

TEST_CASE("what a member sent before it left is still there for its consumer") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  auto producer = join(path);
  const auto consumer = join(path);
  {
    const auto ring = producer->create_ring(consumer->self());
    REQUIRE(ring);
    ring->data()[0] = std::byte{7};
  }
  producer.reset();
  std::uint64_t bad = 0;
  const auto taken = consumer->take_announced_rings(bad);
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].data()[0] == std::byte{7});
  CHECK_FALSE(consumer->is_current(taken[0].producer));
}

TEST_CASE("a ring that is not what its name says is not mapped") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto producer = join(path);
  const auto consumer = join(path);
  const auto ring = producer->create_ring(consumer->self());
  REQUIRE(ring);
  const std::string file = ring_path(path, slot_of(producer->self()), slot_of(consumer->self()), 1);
  SECTION("wrong magic") { ring->header().magic = 1; }
  SECTION("wrong version") { ring->header().version = 9; }
  SECTION("wrong size in the header") { ring->header().data_bytes *= 2; }
  SECTION("for somebody else") { ring->header().consumer = producer->self(); }
  SECTION("of somebody else") { ring->header().producer = consumer->self(); }
  SECTION("not a power of two") {
    REQUIRE(truncate(file.c_str(), ring_header_bytes + ring_bytes + 64) == 0);
  }
  SECTION("too small") { REQUIRE(truncate(file.c_str(), 10) == 0); }
  SECTION("with holes, so that touching it could end in SIGBUS") {
    REQUIRE(truncate(file.c_str(), 0) == 0);
    REQUIRE(truncate(file.c_str(), ring_header_bytes + ring_bytes) == 0);
  }
  SECTION("gone") { REQUIRE(unlink(file.c_str()) == 0); }
  SECTION("a directory") {
    REQUIRE(unlink(file.c_str()) == 0);
    REQUIRE(mkdir(file.c_str(), 0700) == 0);
  }
  std::uint64_t bad = 0;
  CHECK(consumer->take_announced_rings(bad).empty());
  CHECK(bad == 1);
}

TEST_CASE("nonsense in the tables names nobody") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto fabric = join(path);
  const Qpn qpn = *fabric->take_qpn_block();
  const std::size_t offset =
      offsetof(FabricFile, block_owners) + to_value(qpn) / block_qpns * sizeof(std::uint64_t);
  Prng prng(3);
  for (int i = 0; i < 1000; ++i) {
    poke(path, offset, prng.next());
    CHECK(fabric->owner_of(qpn) == SlotLife{});
  }
}

TEST_CASE("an injection waits until a doorbell that is full has room") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  auto member = join(path);
  Doorbell& bell = member->doorbell();
  constexpr int more_than_it_holds = 1000;
  for (int i = 0; i < more_than_it_holds; ++i) {
    bell.ring_self();
  }
  const Injection injection{.event = nic::AsyncEventType::port_err, .qpn = std::nullopt};
  REQUIRE(Doorbell::send(injection, bell_path(path, 0)) == -EAGAIN);
  std::atomic<bool> is_sent = false;
  std::optional<Injection> taken;
  std::thread owner([&] {
    while (!taken && !is_sent) {
      bell.drain();
      taken = bell.take_injection();
    }
  });
  const auto sent = send_injection(path, 0, injection);
  is_sent = true;
  owner.join();
  CHECK(sent);
  bell.drain();
  CHECK((taken || bell.take_injection()));
}

TEST_CASE("only a sleeper is woken, and its doorbell rings once") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto sender = join(path);
  const auto receiver = join(path);
  CHECK_FALSE(sender->wake(receiver->self()));
  receiver->set_asleep(true);
  CHECK(sender->wake(receiver->self()));
  CHECK_FALSE(sender->wake(receiver->self()));

  pollfd bell{.fd = receiver->doorbell().fd(), .events = POLLIN, .revents = 0};
  CHECK(poll(&bell, 1, 0) == 1);
  receiver->doorbell().drain();
  CHECK(poll(&bell, 1, 0) == 0);
  CHECK_FALSE(sender->wake(SlotLife{}));
}

TEST_CASE(
    "a doorbell whose descriptor the program closed is replaced, and others' are left alone") {
  const TemporaryDirectory directory;
  const auto fabric = join(directory / "a.fabric");
  const int fd = fabric->doorbell().fd();
  REQUIRE(close(fd) == 0);
  SECTION("nothing took its number") {
    fabric->doorbell().repair();
    CHECK(fcntl(fabric->doorbell().fd(), F_GETFD) == FD_CLOEXEC);
  }
  SECTION("a pipe of the program took its number") {
    int pipe_fds[2];
    REQUIRE(pipe(pipe_fds) == 0);
    REQUIRE(dup2(pipe_fds[0], fd) == fd);
    fabric->doorbell().repair();
    CHECK(fabric->doorbell().fd() != fd);
    CHECK(fcntl(fd, F_GETFD) == 0);
    for (const int other : {pipe_fds[0], pipe_fds[1], fd}) {
      close(other);
    }
  }
  fabric->set_asleep(true);
  CHECK(fabric->wake(fabric->self()));
  pollfd bell{.fd = fabric->doorbell().fd(), .events = POLLIN, .revents = 0};
  CHECK(poll(&bell, 1, 0) == 1);
}

}  // namespace
}  // namespace verbena::ports
