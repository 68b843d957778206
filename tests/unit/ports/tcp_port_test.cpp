// A device's TCP connections over a TCP of its own: how a stream gives it FPDUs, and how a process
// that ends waits for the rest to arrive.
#include <algorithm>
#include <cerrno>
#include <chrono>

#include "ports/port_decorator.h"
#include "ports/sys_event.h"
#include "ports/tcp_port.h"
#include "ports/tcp_stream.h"
#include "tests/unit/ports/fake_network.h"
#include "tests/unit/ports/support.h"

namespace verbena::ports {
namespace {

using namespace std::chrono_literals;

/// A peer that never acknowledges.
class SilentNetwork final : public TcpNetwork {
 public:
  Result<std::unique_ptr<TcpSocket>, int> socket(int /*family*/) override {
    return std::unexpected(-ENFILE);
  }
  bool waits_for_engine() override { return false; }
  bool has_delivered() override { return false; }
};

/// Counts how often it is looked at.
class Restless final : public PortDecorator {
 public:
  enum class Why : std::uint8_t { does_not_sleep, is_readable, is_late };

  Restless(Why why, int& looks)
      : PortDecorator(std::make_unique<test::Network>()), why_(why), looks_(looks) {
    sys::set_event(event_.get());
  }
  void begin_batch(Time now) override {
    now_ = now;
    ++looks_;
  }
  bool prepare_sleep() override { return why_ != Why::does_not_sleep; }
  [[nodiscard]] int fd() const override { return why_ == Why::is_readable ? event_.get() : -1; }
  [[nodiscard]] Time next_deadline() const override {
    return why_ == Why::is_late ? now_ : time_never;
  }

 private:
  Why why_;
  int& looks_;
  Time now_{};
  sys::Fd event_ = std::move(*sys::event());
};

/// Takes what there is room for, a piece a call.
class UnitSocket final : public TcpSocket {
 public:
  explicit UnitSocket(std::vector<std::size_t>& pieces, int& room) : pieces_(pieces), room_(room) {}

  int set_reuse(bool /*value*/) override { return 0; }
  int bind(const SocketAddress& /*address*/) override { return 0; }
  int listen(int /*backlog*/) override { return 0; }
  Result<std::unique_ptr<TcpSocket>, int> accept() override { return std::unexpected(-EAGAIN); }
  int connect(const SocketAddress& /*address*/) override { return 0; }
  int take_error() override { return 0; }
  [[nodiscard]] SocketAddress local() const override { return {}; }
  [[nodiscard]] SocketAddress remote() const override { return {}; }
  [[nodiscard]] int segment_bytes() const override { return 1460; }
  int send(ByteView bytes) override {
    if (room_ == 0) {
      return -EAGAIN;
    }
    --room_;
    pieces_.push_back(bytes.size());
    return static_cast<int>(bytes.size());
  }
  [[nodiscard]] bool keeps_units() const override { return true; }
  int receive(MutableBytes /*room*/) override { return -EAGAIN; }
  int end_sending() override { return 0; }
  void reset_on_close() override {}
  [[nodiscard]] int fd() const override { return -1; }
  [[nodiscard]] std::uint32_t room_event() const override { return 0; }
  void abandon() override {}

 private:
  std::vector<std::size_t>& pieces_;
  int& room_;
};

}  // namespace

TEST_CASE("who waits at the end for a peer that is silent doesn't spin") {
  using Why = Restless::Why;
  for (const Why why : {Why::does_not_sleep, Why::is_readable, Why::is_late}) {
    int looks = 0;
    {
      auto port = TcpPort::open(std::make_unique<Restless>(why, looks),
                                std::make_shared<SilentNetwork>(), nullptr);
      REQUIRE(port);
    }
    // A look each millisecond, for a second.
    CHECK(looks > 0);
    CHECK(looks <= 1001);
  }
}

TEST_CASE("a socket that keeps units gets one FPDU at a time, and one waits when it is full") {
  std::vector<std::size_t> pieces;
  int room = 2;
  TcpStream stream(std::make_unique<UnitSocket>(pieces, room), nullptr);
  for (const std::size_t bytes : {24U, 1460U, 100U}) {
    REQUIRE(stream.reserve(bytes).size() == bytes);
    stream.commit();
  }
  CHECK(pieces == std::vector<std::size_t>{24, 1460});
  CHECK(stream.is_blocked());
  CHECK(stream.reserve(24).empty());
  room = 5;
  stream.unblock();
  CHECK_FALSE(stream.has_unsent());
  REQUIRE(stream.reserve(24).size() == 24);
  stream.commit();
  stream.flush();
  CHECK(pieces == std::vector<std::size_t>{24, 1460, 100, 24});
}

}  // namespace verbena::ports
