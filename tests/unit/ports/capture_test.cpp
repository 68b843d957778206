// The capture decorator: what it writes is what passed, in order, with the words that belong to it;
// and no trouble with the file reaches the program.
#include <fcntl.h>
#include <signal.h>

#include <chrono>
#include <optional>

#include "pcap/reader.h"
#include "ports/capture_port.h"
#include "ports/engine.h"
#include "tests/unit/ports/fabric_fixture.h"

namespace verbena::ports {
namespace {

using test::fill_pattern;
using test::has_pattern;
using test::RecordingHandler;
using test::TemporaryDirectory;

/// A port that gives out what it was given.
class FakePort final : public Port {
 public:
  MutableBytes reserve(const FrameRoute& /*route*/, std::size_t bytes) override {
    if (full) {
      return {};
    }
    frame.assign(bytes, std::byte{0xA5});
    return frame;
  }
  void commit(const PacketNote& /*note*/) override { arriving.push_back(frame); }
  [[nodiscard]] bool is_unread(const FrameRoute& /*route*/) override { return unread; }
  std::uint32_t poll_receive(FrameHandler& handler, std::uint32_t /*frames_max*/) override {
    for (const auto& bytes : arriving) {
      handler.on_frame(bytes);
    }
    const auto count = static_cast<std::uint32_t>(arriving.size());
    arriving.clear();
    return count;
  }
  void flush() override {}
  bool prepare_sleep() override { return true; }
  void finish_sleep() override {}
  [[nodiscard]] int fd() const override { return -1; }
  void wake() override {}
  void begin_batch(Time /*now*/) override {}
  [[nodiscard]] PortStatistics statistics() const override { return {.frames_lost = 7}; }
  void abandon() override {}

  std::vector<std::byte> frame;
  std::vector<std::vector<std::byte>> arriving;
  bool full = false;
  bool unread = false;
};

struct Captured {
  std::vector<std::byte> frame;
  pcap::Direction direction{};
  std::vector<std::string> comments;
  pcap::UnixTime time{};
  std::string interface_name;
};

std::vector<Captured> read_capture(const std::string& path) {
  std::vector<Captured> all;
  auto reader = pcap::Reader::open(path);
  REQUIRE(reader);
  for (;;) {
    const auto packet = reader->next();
    REQUIRE(packet);
    if (!*packet) {
      return all;
    }
    Captured& item = all.emplace_back();
    item.frame.assign((*packet)->frame.begin(), (*packet)->frame.end());
    item.direction = (*packet)->direction;
    item.comments.assign((*packet)->comments.begin(), (*packet)->comments.end());
    item.time = (*packet)->time.value();
    item.interface_name = (*packet)->interface_name;
  }
}

std::shared_ptr<CaptureFile> open_capture(const std::string& path) {
  auto file = CaptureFile::open(path);
  INFO((file ? "" : file.error()));
  REQUIRE(file);
  return *file;
}

void send_frame(Port& port, std::size_t bytes, std::uint64_t number, const PacketNote& note) {
  const MutableBytes frame = port.reserve({}, bytes);
  REQUIRE(frame.size() == bytes);
  fill_pattern(frame, number);
  port.commit(note);
}

TEST_CASE("a capture holds both directions with time, comments and interface") {
  const TemporaryDirectory directory;
  const std::string path = directory / "trace.pcapng";
  const auto before = std::chrono::system_clock::now();
  {
    CapturePort port(std::make_unique<FakePort>(), open_capture(path), "verbena0", "a test");
    port.begin_batch(Engine::now());
    send_frame(port, 60, 1, {});
    send_frame(port, 1500, 2,
               {.kind = PacketNote::Kind::retransmission,
                .cause = PacketNote::Cause::timeout,
                .attempt = 2});
    RecordingHandler handler;
    handler.verdict = RxVerdict::drop(RxCheck::psn, Counter::rx_drop_out_of_sequence, 5, 7);
    CHECK(port.poll_receive(handler, 64) == 2);
    CHECK(handler.frames.size() == 2);
    CHECK(port.statistics().frames_lost == 7);
  }
  const auto packets = read_capture(path);
  REQUIRE(packets.size() == 4);
  CHECK(packets[0].direction == pcap::Direction::outbound);
  CHECK(has_pattern(packets[0].frame, 1));
  CHECK(packets[0].comments.empty());
  CHECK(packets[0].interface_name == "verbena0");
  CHECK(packets[1].frame.size() == 1500);
  REQUIRE(packets[1].comments.size() == 1);
  CHECK(packets[1].comments[0] == "retransmission 2 after the ACK timeout");
  CHECK(packets[2].direction == pcap::Direction::inbound);
  CHECK(has_pattern(packets[2].frame, 1));
  REQUIRE(packets[2].comments.size() == 1);
  CHECK(packets[2].comments[0] ==
        describe(RxVerdict::drop(RxCheck::psn, Counter::rx_drop_out_of_sequence, 5, 7)));
  for (const Captured& packet : packets) {
    CHECK(packet.time >= before - std::chrono::milliseconds(100));
    CHECK(packet.time <= std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  }
}

TEST_CASE("every kind of note has words but the plain one") {
  using Kind = PacketNote::Kind;
  CHECK(describe(PacketNote{}).empty());
  CHECK(
      describe(PacketNote{
          .kind = Kind::retransmission, .cause = PacketNote::Cause::nak_sequence, .attempt = 1}) ==
      "retransmission 1 after a NAK \"PSN sequence error\"");
  CHECK(describe(PacketNote{.kind = Kind::replay}).find("duplicate") != std::string::npos);
  CHECK(describe(PacketNote{.kind = Kind::rnr_nak}).find("RNR NAK") != std::string::npos);
  CHECK(describe(PacketNote{.kind = Kind::nak}).find("NAK") != std::string::npos);
}

TEST_CASE("whether frames are unread, the port behind a capture knows") {
  const TemporaryDirectory directory;
  auto inner = std::make_unique<FakePort>();
  inner->unread = true;
  CapturePort port(std::move(inner), open_capture(directory / "trace.pcapng"), "verbena0",
                   "a test");
  CHECK(port.is_unread({}));
}

TEST_CASE("a refused reservation writes nothing") {
  const TemporaryDirectory directory;
  const std::string path = directory / "trace.pcapng";
  {
    auto inner = std::make_unique<FakePort>();
    inner->full = true;
    CapturePort port(std::move(inner), open_capture(path), "verbena0", "");
    CHECK(port.reserve({}, 60).empty());
  }
  CHECK(read_capture(path).empty());
}

TEST_CASE("a capture is readable while it is being written") {
  const TemporaryDirectory directory;
  const std::string path = directory / "trace.pcapng";
  CapturePort port(std::make_unique<FakePort>(), open_capture(path), "verbena0", "");
  Time now = Engine::now();
  port.begin_batch(now);
  SECTION("when the NIC falls asleep") {
    send_frame(port, 60, 1, {});
    CHECK(port.prepare_sleep());
  }
  SECTION("when it stays busy") {
    send_frame(port, 60, 1, {});
    now += std::chrono::milliseconds(60);
    port.begin_batch(now);
  }
  CHECK(read_capture(path).size() == 1);
}

TEST_CASE("two devices of a process that name one file share it") {
  const TemporaryDirectory directory;
  const std::string path = directory / "trace.pcapng";
  {
    const auto first = open_capture(path);
    const auto second = open_capture(path);
    CHECK(first == second);
    CapturePort one(std::make_unique<FakePort>(), first, "verbena0", "");
    CapturePort other(std::make_unique<FakePort>(), second, "verbena1", "");
    send_frame(one, 60, 1, {});
    send_frame(other, 60, 2, {});
    send_frame(one, 60, 3, {});
  }
  const auto packets = read_capture(path);
  REQUIRE(packets.size() == 3);
  CHECK(packets[0].interface_name == "verbena0");
  CHECK(packets[1].interface_name == "verbena1");
  CHECK(packets[2].interface_name == "verbena0");
}

TEST_CASE("a capture that can't be opened is an error with the file's name") {
  const auto file = CaptureFile::open("/nonexistent/trace.pcapng");
  REQUIRE_FALSE(file);
  CHECK(file.error().find("/nonexistent/trace.pcapng") != std::string::npos);
}

/// Sends and receives through a capture whose file takes nothing.
void check_traffic_goes_on(int fd) {
  auto file = std::make_shared<CaptureFile>(pcap::PcapngWriter::from_fd(fd, "the test's file", {}));
  CapturePort port(std::make_unique<FakePort>(), file, "verbena0", "");
  RecordingHandler handler;
  for (std::uint64_t i = 0; i < 100; ++i) {
    send_frame(port, 4096, i, {});
    CHECK(port.prepare_sleep());
    port.poll_receive(handler, 64);
  }
  CHECK(handler.frames.size() == 100);
}

TEST_CASE("a reader that goes away ends the capture, not the program") {
  int fds[2];
  REQUIRE(pipe(fds) == 0);
  close(fds[0]);
  // With the default action a SIGPIPE would end this test.
  signal(SIGPIPE, SIG_DFL);
  check_traffic_goes_on(fds[1]);
}

TEST_CASE("a full disk ends the capture, not the program") {
  check_traffic_goes_on(open("/dev/full", O_WRONLY | O_CLOEXEC));
}

}  // namespace
}  // namespace verbena::ports
