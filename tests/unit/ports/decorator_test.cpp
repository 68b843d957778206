// Ports in front of a port: what they don't care for gets through, and ICRCs that are not what the
// specification wants.
#include <algorithm>

#include "ports/fault_port.h"
#include "ports/icrc_port.h"
#include "ports/log_port.h"
#include "proto/roce/decap.h"
#include "tests/unit/ports/fake_network.h"
#include "tests/unit/ports/support.h"
#include "tests/unit/ports/udp_frames.h"

namespace verbena::ports {
namespace {

using test::Network;
using test::send_frame;
using test::send_frame_bytes;
using test::Way;
using test::write_send;

constexpr std::size_t data_bytes = 61;

/// A NIC that doesn't look at ICRCs that are proved.
struct Receiver final : FrameHandler {
  RxVerdict on_frame(ByteView) override {
    ++unproved;
    return {};
  }
  RxVerdict on_proved_frame(ByteView) override {
    ++proved;
    return {};
  }
  int unproved = 0;
  int proved = 0;
};

std::uint32_t icrc_sent_by(IcrcSent sent) {
  auto inner = std::make_unique<Network>();
  const Network& network = *inner;
  IcrcPort port(std::move(inner), sent, IcrcCheck::on);
  const MutableBytes frame = port.reserve(Way{}.route(), send_frame_bytes(data_bytes));
  write_send({}, frame, data_bytes, port.way_fields(), 1);
  port.commit({});
  REQUIRE(network.sent.size() == 1);
  return roce::parse_frame(network.sent.front())->wire_icrc();
}

Receiver receive_by(IcrcCheck check, std::uint64_t& counted) {
  auto inner = std::make_unique<Network>();
  std::vector<std::byte> wrong = send_frame({}, data_bytes, 1);
  wrong.back() ^= std::byte{1};
  inner->arriving = {send_frame({}, data_bytes, 2), wrong};
  IcrcPort port(std::move(inner), IcrcSent::good, check);
  Receiver receiver;
  port.poll_receive(receiver, 64);
  counted = port.statistics().frames_with_wrong_icrc;
  return receiver;
}

}  // namespace

TEST_CASE("an ICRC is sent good, wrong or as zero") {
  const std::uint32_t good = icrc_sent_by(IcrcSent::good);
  CHECK(good != 0);
  CHECK(icrc_sent_by(IcrcSent::bad) == ~good);
  CHECK(icrc_sent_by(IcrcSent::zero) == 0);
}

TEST_CASE("frames with a wrong ICRC are left to the NIC, or taken and counted, or just taken") {
  std::uint64_t counted = 0;
  const Receiver checking = receive_by(IcrcCheck::on, counted);
  CHECK((checking.unproved == 2 && checking.proved == 0 && counted == 0));
  const Receiver counting = receive_by(IcrcCheck::count, counted);
  CHECK((counting.unproved == 0 && counting.proved == 2 && counted == 1));
  const Receiver blind = receive_by(IcrcCheck::off, counted);
  CHECK((blind.unproved == 0 && blind.proved == 2 && counted == 0));
}

// With VERBENA_LOG=debug no MAD and no datagram to a group arrived.
TEST_CASE("memberships get through whatever stands in between") {
  auto inner = std::make_unique<Network>();
  const Network& network = *inner;
  std::unique_ptr<Port> port = std::make_unique<LogPort>(std::move(inner), "verbena0");
  port = std::make_unique<FaultPort>(std::move(port), faults::RuleSet{}, 1, Time{});
  port = std::make_unique<IcrcPort>(std::move(port), IcrcSent::good, IcrcCheck::count);
  port->set_membership({});
  CHECK(network.memberships == 1);
}

}  // namespace verbena::ports
