// The pcapng writer: what it writes is read back by our own reader and by libpcap, captures are
// never written over, and a reader that leaves doesn't kill the program.
#include "pcap/pcapng_writer.h"

#include <fcntl.h>
#include <pcap/pcap.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <memory>

#include "tests/unit/pcap/support.h"

namespace verbena::pcap::test {
namespace {

using namespace std::chrono_literals;

constexpr UnixTime epoch{std::chrono::nanoseconds(1'700'000'000'123'456'789)};

PcapngWriter open_ok(const std::string& path) {
  auto writer = PcapngWriter::open(path, {.hardware = "test", .os = "none"});
  REQUIRE(writer);
  return std::move(*writer);
}

TEST_CASE("what is written is read back") {
  const TempDir dir;
  const std::string path = dir.file("a.pcapng");
  PcapngWriter writer = open_ok(path);
  CHECK(writer.path() == path);
  const InterfaceId first = writer.add_interface({.name = "verbena0", .description = "port 1"});
  const InterfaceId second = writer.add_interface({.name = "verbena1"});
  const std::array<std::string_view, 2> comments{"retransmission 2", "dropped: ICRC"};
  // Every padding, and a frame without bytes.
  for (unsigned size = 0; size < 9; ++size) {
    const Bytes frame = counting_frame(size, size);
    REQUIRE(writer.write({.interface = size % 2 == 0 ? first : second,
                          .time = epoch + size * 1ns,
                          .frame = frame,
                          .direction = Direction(size % 3),
                          .comments = std::span(comments).first(size % 3)}));
  }
  writer.write_statistics(first, {.time = epoch, .received_packets = 9, .dropped_packets = 1});
  REQUIRE(writer.close());

  const ReadAll all = read_all(read_file(path));
  REQUIRE_FALSE(all.error);
  REQUIRE(all.packets.size() == 9);
  for (unsigned size = 0; size < 9; ++size) {
    const OwnedPacket& packet = all.packets[size];
    CHECK(packet.frame == counting_frame(size, size));
    CHECK(packet.wire_bytes == size);
    CHECK(packet.time == epoch + size * 1ns);
    CHECK(packet.direction == Direction(size % 3));
    CHECK(packet.interface_name == (size % 2 == 0 ? "verbena0" : "verbena1"));
    CHECK(packet.comments.size() == size % 3);
    if (size % 3 == 2) {
      CHECK(packet.comments[0] == "retransmission 2");
      CHECK(packet.comments[1] == "dropped: ICRC");
    }
  }
}

TEST_CASE("libpcap reads what is written, with nanoseconds") {
  const TempDir dir;
  const std::string path = dir.file("a.pcapng");
  PcapngWriter writer = open_ok(path);
  const InterfaceId id = writer.add_interface({.name = "verbena0"});
  const Bytes frame = counting_frame(61);
  constexpr std::string_view comment = "a comment";
  REQUIRE(writer.write({.interface = id,
                        .time = epoch,
                        .frame = frame,
                        .direction = Direction::outbound,
                        .comments = std::span(&comment, 1)}));
  REQUIRE(writer.close());

  std::array<char, PCAP_ERRBUF_SIZE> message{};
  const std::unique_ptr<pcap_t, void (*)(pcap_t*)> capture(
      pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_NANO,
                                              message.data()),
      pcap_close);
  INFO(message.data());
  REQUIRE(capture);
  CHECK(pcap_datalink(capture.get()) == DLT_EN10MB);
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  REQUIRE(pcap_next_ex(capture.get(), &header, &data) == 1);
  CHECK(header->caplen == frame.size());
  CHECK(header->len == frame.size());
  CHECK(header->ts.tv_sec == 1'700'000'000);
  CHECK(header->ts.tv_usec == 123'456'789);
  CHECK(std::memcmp(data, frame.data(), frame.size()) == 0);
  CHECK(pcap_next_ex(capture.get(), &header, &data) == PCAP_ERROR_BREAK);
}

TEST_CASE("a comment that is too long for an option is cut") {
  Bytes out;
  append_section_header(out, {});
  append_interface_description(out, {});
  const std::string text(70'000, 'x');
  const std::string_view comment = text;
  append_enhanced_packet(out, {.frame = {}, .comments = std::span(&comment, 1)});
  const ReadAll all = read_all(out);
  REQUIRE_FALSE(all.error);
  REQUIRE(all.packets.size() == 1);
  REQUIRE(all.packets[0].comments.size() == 1);
  CHECK(all.packets[0].comments[0] == text.substr(0, 65'535));
}

TEST_CASE("blocks become visible with flush, without it only past the threshold") {
  const TempDir dir;
  const std::string path = dir.file("a.pcapng");
  PcapngWriter writer = open_ok(path);
  const InterfaceId id = writer.add_interface({});
  CHECK(read_file(path).empty());
  REQUIRE(writer.flush());
  CHECK(read_all(read_file(path)).packets.empty());

  const Bytes frame = counting_frame(1000);
  REQUIRE(writer.write({.interface = id, .frame = frame}));
  CHECK(read_all(read_file(path)).packets.empty());
  REQUIRE(writer.flush());
  CHECK(read_all(read_file(path)).packets.size() == 1);

  for (std::size_t i = 0; i <= PcapngWriter::flush_threshold_bytes / frame.size(); ++i) {
    REQUIRE(writer.write({.interface = id, .frame = frame}));
  }
  const ReadAll all = read_all(read_file(path));
  CHECK_FALSE(all.error);
  CHECK(all.packets.size() > 200);
}

TEST_CASE("a capture that has something in it is not written over") {
  const TempDir dir;
  const std::string path = dir.file("a.b.pcapng");
  const std::string pid = std::to_string(::getpid());
  PcapngWriter first = open_ok(path);
  REQUIRE(first.close());
  const Bytes before = read_file(path);

  PcapngWriter second = open_ok(path);
  CHECK(second.path() == dir.file("a.b." + pid + ".pcapng"));
  REQUIRE(second.close());
  PcapngWriter third = open_ok(path);
  CHECK(third.path() == dir.file("a.b." + pid + ".2.pcapng"));
  CHECK(read_file(path) == before);
}

TEST_CASE("a capture that another writer has open is left to it, even while it is empty") {
  const TempDir dir;
  const std::string path = dir.file("trace");
  const PcapngWriter first = open_ok(path);
  const PcapngWriter second = open_ok(path);
  CHECK(first.path() == path);
  CHECK(second.path() == dir.file("trace." + std::to_string(::getpid())));
}

TEST_CASE("an empty file is taken as it is") {
  const TempDir dir;
  const std::string path = dir.file("a.pcapng");
  std::ofstream(path).close();
  CHECK(open_ok(path).path() == path);
}

TEST_CASE("captures are readable by their owner only") {
  const TempDir dir;
  const PcapngWriter writer = open_ok(dir.file("a.pcapng"));
  struct stat status{};
  REQUIRE(::stat(writer.path().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("a capture that can't be opened is an error that names it") {
  const auto writer = PcapngWriter::open("/no/such/directory/a.pcapng", {});
  REQUIRE_FALSE(writer);
  CHECK(writer.error().text ==
        "/no/such/directory/a.pcapng: can't open the capture for writing: No such file or "
        "directory");
  CHECK(writer.error().error_number == ENOENT);
}

struct Pipe {
  Pipe() { REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0); }
  std::array<int, 2> ends{};
};

TEST_CASE("a reader that goes away ends the capture with EPIPE, without a signal") {
  const Pipe pipe;
  PcapngWriter writer = PcapngWriter::from_fd(pipe.ends[1], "pipe", {});
  const InterfaceId id = writer.add_interface({});
  REQUIRE(writer.flush());
  ::close(pipe.ends[0]);
  const Bytes frame = counting_frame(100);
  REQUIRE(writer.write({.interface = id, .frame = frame}));
  // A SIGPIPE would end the test program here.
  const auto flushed = writer.flush();
  REQUIRE_FALSE(flushed);
  CHECK(flushed.error().error_number == EPIPE);
  CHECK(flushed.error().text == "pipe: can't write the capture: Broken pipe");
  sigset_t pending;
  REQUIRE(sigpending(&pending) == 0);
  CHECK(sigismember(&pending, SIGPIPE) == 0);
  // The error stays.
  CHECK(writer.write({.interface = id, .frame = frame}).error().error_number == EPIPE);
  CHECK(writer.close().error().error_number == EPIPE);
}

TEST_CASE("a pipe that is full makes the writer wait, also when it is non-blocking") {
  const Pipe pipe;
  REQUIRE(::fcntl(pipe.ends[1], F_SETFL, O_NONBLOCK) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // Reads all that comes; the status tells whether it was what was written.
    ::close(pipe.ends[1]);
    Bytes all;
    Bytes part(10'000);
    ssize_t got = 0;
    while ((got = ::read(pipe.ends[0], part.data(), part.size())) > 0) {
      all.insert(all.end(), part.begin(), part.begin() + got);
    }
    const ReadAll read = read_all(all);
    ::_exit(read.packets.size() == 3000 && !read.error ? 0 : 1);
  }
  ::close(pipe.ends[0]);
  PcapngWriter writer = PcapngWriter::from_fd(pipe.ends[1], "pipe", {});
  const InterfaceId id = writer.add_interface({});
  const Bytes frame = counting_frame(1000);
  for (int i = 0; i < 3000; ++i) {
    REQUIRE(writer.write({.interface = id, .frame = frame}));
  }
  REQUIRE(writer.close());
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a file that may not grow is an error that says why") {
  const TempDir dir;
  const std::string path = dir.file("a.pcapng");
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 100, .rlim_max = 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto writer = PcapngWriter::open(path, {});
    if (!writer) {
      ::_exit(2);
    }
    const InterfaceId id = writer->add_interface({});
    const Bytes frame = counting_frame(1000);
    const auto written = writer->write({.interface = id, .frame = frame});
    const auto flushed = writer->flush();
    ::_exit(written && !flushed && flushed.error().error_number == EFBIG ? 0 : 3);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("after a fork the child forgets what the parent buffered") {
  const TempDir dir;
  const std::string path = dir.file("a.pcapng");
  PcapngWriter writer = open_ok(path);
  const InterfaceId id = writer.add_interface({});
  const Bytes frame = counting_frame(10);
  REQUIRE(writer.write({.interface = id, .frame = frame}));
  const pid_t child = ::fork();
  if (child == 0) {
    writer.abandon();
    ::_exit(writer.flush() ? 1 : 0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  REQUIRE(writer.close());
  CHECK(read_all(read_file(path)).packets.size() == 1);
}

TEST_CASE("two writers don't mix in one FIFO") {
  const TempDir dir;
  const std::string path = dir.file("fifo");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  const PcapngWriter first = open_ok(path);
  const auto second = PcapngWriter::open(path, {});
  REQUIRE_FALSE(second);
  CHECK(second.error().text == path + ": another process writes its capture to this pipe");
  ::close(reader);
}

}  // namespace
}  // namespace verbena::pcap::test
