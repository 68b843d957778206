// Several processes in one fabric: traffic, sudden death, fork. Children end by _exit(): what they
// find goes back in their exit status.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "ports/process_hooks.h"
#include "ports/sys.h"
#include "tests/unit/ports/child_process.h"
#include "tests/unit/ports/fabric_fixture.h"

namespace verbena::ports {
namespace {

using test::eventually;
using test::exit_status_of;
using test::has_pattern;
using test::in_child;
using test::kill_and_reap;
using test::open_port;
using test::PortWithQpns;
using test::RecordingHandler;
using test::Rendezvous;
using test::send;
using test::TemporaryDirectory;
using test::wait_for_ever;

constexpr std::uint32_t many = 1U << 20;

/// Answers each frame with its like until `count` have come; 0 if all were right.
int echo(const std::string& path, Qpn partner, const Rendezvous& rendezvous, std::uint64_t count) {
  class Echo final : public FrameHandler {
   public:
    RxVerdict on_frame(ByteView frame) override {
      failed = failed || !has_pattern(frame.first(16), received);
      ++received;
      return {};
    }
    std::uint64_t received = 0;
    bool failed = false;
  } handler;
  const PortWithQpns own = open_port(path);
  rendezvous.tell_parent(own.first);
  std::uint64_t answered = 0;
  const bool done = eventually([&] {
    own->poll_receive(handler, 64);
    while (answered < handler.received && send(*own.port, partner, 16 + answered % 999, answered)) {
      ++answered;
    }
    own->flush();
    return answered == count;
  });
  return done && !handler.failed ? 0 : 1;
}

TEST_CASE("two processes exchange 30000 frames both ways, whole and in order") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  constexpr std::uint64_t count = 30'000;
  const PortWithQpns own = open_port(path);
  const Rendezvous rendezvous;
  const pid_t child = in_child([&] { return echo(path, own.first, rendezvous, count); });
  const Qpn partner = rendezvous.hear_child<Qpn>();

  class Check final : public FrameHandler {
   public:
    RxVerdict on_frame(ByteView frame) override {
      wrong +=
          frame.size() == 16 + received % 999 && has_pattern(frame.first(16), received) ? 0 : 1;
      ++received;
      return {};
    }
    std::uint64_t received = 0;
    std::uint64_t wrong = 0;
  } check;
  std::uint64_t sent = 0;
  CHECK(eventually([&] {
    while (sent < count && sent < check.received + 500 &&
           send(*own.port, partner, 16 + sent % 4000, sent)) {
      ++sent;
    }
    own->flush();
    own->poll_receive(check, 64);
    return check.received == count;
  }));
  CHECK(check.wrong == 0);
  CHECK(exit_status_of(child) == 0);
  CHECK(own->statistics().frames_lost == 0);
}

TEST_CASE("the slot, QPNs and files of a killed process are free for the next one") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns own = open_port(path);
  std::vector<std::uint32_t> slots;
  for (int life = 0; life < 5; ++life) {
    const Rendezvous rendezvous;
    const pid_t child = in_child([&]() -> int {
      const PortWithQpns doomed = open_port(path);
      // Leaves a ring that its partner never maps.
      send(*doomed.port, own.first, 60, 1);
      rendezvous.tell_parent(doomed.first);
      wait_for_ever();
    });
    const Qpn qpn = rendezvous.hear_child<Qpn>();
    const SlotLife alive = own.port->fabric().owner_of(qpn);
    REQUIRE(alive != SlotLife{});
    CHECK(own.port->fabric().check_alive(alive));
    slots.push_back(slot_of(alive));
    kill_and_reap(child);
    if (life % 2 == 0) {
      CHECK_FALSE(own.port->fabric().check_alive(alive));
      CHECK(own.port->fabric().owner_of(qpn) == SlotLife{});
      CHECK(list_members(path)->size() == 1);
    }
  }
  CHECK(std::ranges::count(slots, slots.front()) == 5);
  // The last life was not noticed yet; the next member clears it.
  const PortWithQpns next = open_port(path);
  CHECK(list_members(path)->size() == 2);
}

TEST_CASE("when all processes are killed, the next one cleans up and can take all away") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  for (int i = 0; i < 3; ++i) {
    const Rendezvous rendezvous;
    const pid_t child = in_child([&]() -> int {
      const PortWithQpns a = open_port(path);
      const PortWithQpns b = open_port(path);
      send(*a.port, b.first, 60, 1);
      a->flush();
      rendezvous.tell_parent(1);
      wait_for_ever();
    });
    rendezvous.hear_child<int>();
    kill_and_reap(child);
  }
  CHECK(directory.files().size() > 1);
  {
    const PortWithQpns cleaner = open_port(path);
  }
  CHECK(directory.files().empty());
}

TEST_CASE("a sender blocked by a process that was killed loses its frames instead of waiting") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const PortWithQpns own = open_port(path);
  const Rendezvous rendezvous;
  const pid_t child = in_child([&]() -> int {
    const PortWithQpns doomed = open_port(path);
    rendezvous.tell_parent(doomed.first);
    wait_for_ever();
  });
  const Qpn qpn = rendezvous.hear_child<Qpn>();
  Time now{};
  own->begin_batch(now);
  while (send(*own.port, qpn, 4000, 1)) {
  }
  own->flush();
  now += std::chrono::seconds(1);
  own->begin_batch(now);
  // Alive, only not draining: the sender waits.
  CHECK_FALSE(send(*own.port, qpn, 4000, 1));
  kill_and_reap(child);
  now += std::chrono::seconds(1);
  own->begin_batch(now);
  CHECK(send(*own.port, qpn, 4000, 1));
  CHECK(own->statistics().frames_lost == 1);
}

TEST_CASE("a child of fork() neither keeps its parent's slot nor shares its memory") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto observer = test::join_fabric(path);
  const Rendezvous rendezvous;
  pid_t grandchild = 0;
  const pid_t child = in_child([&]() -> int {
    const auto fabric = test::join_fabric(path);
    grandchild = fork();
    if (grandchild == 0) {
      wait_for_ever();
    }
    rendezvous.tell_parent(fabric->self());
    rendezvous.tell_parent(grandchild);
    wait_for_ever();
  });
  const auto life = rendezvous.hear_child<SlotLife>();
  grandchild = rendezvous.hear_child<pid_t>();
  CHECK(observer->check_alive(life));
  kill_and_reap(child);
  CHECK_FALSE(observer->check_alive(life));
  kill(grandchild, SIGKILL);
}

TEST_CASE("a program that closes all descriptors keeps its slot") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const auto observer = test::join_fabric(path);
  const Rendezvous rendezvous;
  const pid_t child = in_child([&]() -> int {
    const auto fabric = test::join_fabric(path);
    close(fabric->doorbell().fd());
    rendezvous.tell_parent(fabric->self());
    wait_for_ever();
  });
  CHECK(observer->check_alive(rendezvous.hear_child<SlotLife>()));
  kill_and_reap(child);
}

TEST_CASE("a file size limit of the process is an error, not a signal in the middle") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  const pid_t child = in_child([&]() -> int {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 4096, .rlim_max = 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto fabric =
        Fabric::join({.path = path, .device_name = "x", .ring_bytes = std::size_t{64} << 10});
    return !fabric && fabric.error().find("no space") != std::string::npos ? 0 : 1;
  });
  CHECK(exit_status_of(child) == 0);
}

TEST_CASE("processes that join and leave at the same time all get in") {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.fabric";
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(in_child([&]() -> int {
      for (int round = 0; round < 100; ++round) {
        const auto fabric =
            Fabric::join({.path = path, .device_name = "x", .ring_bytes = std::size_t{64} << 10});
        if (!fabric || !(*fabric)->take_qpn_block()) {
          return 1;
        }
      }
      return 0;
    }));
  }
  for (const pid_t child : children) {
    CHECK(exit_status_of(child) == 0);
  }
  CHECK(directory.files().empty());
}

/// Takes its time at exit, and tells how that ended by the status.
class SlowHook final : public ProcessHook {
 public:
  static constexpr int went_through = 7;

  void before_fork() override {}
  void after_fork_in_parent() override {}
  void after_fork_in_child() override {}
  void at_exit() override {
    began = true;
    began.notify_all();
    static_cast<void>(sys::poll(nullptr, 0, std::chrono::milliseconds(50)));
    ::_exit(went_through);
  }

  std::atomic<bool> began{false};
};

TEST_CASE("in a child, whoever calls exit() second waits for what the first does there") {
  CHECK(exit_status_of(in_child([]() -> int {
          static SlowHook hook;
          add_process_hook(hook);
          std::thread([] {
            hook.began.wait(false);
            std::exit(0);
          }).detach();
          std::exit(0);
        })) == SlowHook::went_through);
}

}  // namespace
}  // namespace verbena::ports
