// A way out that has no room: nothing is lost, nobody else waits, and a way that stays shut is a
// dead peer.
#include <catch2/catch.hpp>

#include "proto/ib_bth/packet.h"
#include "proto/roce/decap.h"
#include "tests/support/pair.h"

namespace verbena::test {

using namespace std::chrono_literals;

TEST_CASE("a sink that takes one frame at a time loses nothing") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post_recv(Side::b, *qps.b, 7, {{8192, 8192}});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 5000}));
  pair.post(Side::a, *qps.a, pair.a.read(2, {16384, 5000}, pair.b, 0));
  pair.post(Side::a, *qps.a, pair.a.write(3, {0, 5000}, pair.b, 32768));
  pair.set_room(Side::a, 0);
  pair.set_room(Side::b, 0);
  Lines completions;
  for (int turn = 0; turn < 200 && completions.size() < 3; ++turn) {
    pair.set_room(turn % 2 == 0 ? Side::a : Side::b, 1);
    pair.settle();
    for (const std::string& text : pair.a.completions()) {
      completions.push_back(text);
    }
  }
  CHECK(completions == Lines{"1 send success", "2 read success", "3 write success"});
  CHECK(std::ranges::equal(pair.b.bytes(8192, 5000), pair.a.bytes(0, 5000)));
  CHECK(std::ranges::equal(pair.a.bytes(16384, 5000), pair.b.bytes(0, 5000)));
  CHECK(std::ranges::equal(pair.b.bytes(32768, 5000), pair.a.bytes(0, 5000)));
  CHECK(pair.a.count(Counter::retransmitted_pkts) == 0);
}

TEST_CASE("a way that stays shut ends with retry_exc_err, without a frame sent") {
  // docs/ARCHITECTURE.md, host fabric: a peer that stops draining is as a dead host.
  Pair pair;
  const Connection qps = pair.connect({.timeout = 8, .retry_cnt = 3});
  pair.set_room(Side::a, 0);
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write retry_exc_err"});
  CHECK(pair.log().empty());
  CHECK(pair.now() == Time{} + 4 * 4096ns * 256);
}

TEST_CASE("a way that opens in time has cost nothing") {
  Pair pair;
  const Connection qps = pair.connect({.timeout = 8, .retry_cnt = 3});
  pair.set_room(Side::a, 0);
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 3000}, pair.b, 0));
  pair.advance(2 * 4096ns * 256);
  pair.set_room(Side::a, Pair::always);
  pair.run_until_idle();
  CHECK(pair.wire(Side::a) ==
        Lines{"write_first 100 +1024", "write_middle 101 +1024", "write_last 102 +952 A"});
  CHECK(pair.a.completions() == Lines{"1 write success"});
}

namespace {

/// Refuses frames to one queue pair, takes and forgets all others.
class PartlyShut final : public FrameSink {
 public:
  explicit PartlyShut(Qpn shut) : shut_(shut) {}
  MutableBytes reserve(const FrameRoute& route, std::size_t bytes) override {
    if (route.destination_qpn == shut_) {
      return {};
    }
    frame_.resize(bytes);
    return frame_;
  }
  void commit(const PacketNote&) override { ++taken; }
  std::uint32_t taken = 0;

 private:
  Qpn shut_;
  std::vector<std::byte> frame_;
};

}  // namespace

TEST_CASE("one shut way doesn't hold up the others") {
  Pair pair;
  const Connection shut = pair.connect();
  const Connection open = pair.connect();
  pair.post(Side::a, *shut.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.post(Side::a, *open.a, pair.a.write(2, {0, 3000}, pair.b, 0));
  PartlyShut sink(nic::qpn_of(*shut.b));
  CHECK(pair.a.nic.poll_transmit(pair.now(), sink) == nic::TransmitStatus::blocked);
  CHECK(sink.taken == 3);
  CHECK(pair.a.nic.poll_transmit(pair.now(), sink) == nic::TransmitStatus::blocked);
  CHECK(sink.taken == 3);
}

TEST_CASE("queue pairs take turns") {
  Pair pair;
  const Connection first = pair.connect();
  const Connection second = pair.connect();
  pair.post(Side::a, *first.a, pair.a.write(1, {0, 60'000}, pair.b, 0));
  pair.post(Side::a, *second.a, pair.a.write(2, {0, 60'000}, pair.b, 0));
  pair.settle();
  std::vector<Qpn> order;
  for (const WirePacket& packet : pair.log()) {
    if (packet.from == Side::a && (order.empty() || order.back() != packet.fields.dest_qpn)) {
      order.push_back(packet.fields.dest_qpn);
    }
  }
  CHECK(order.size() > 4);
  CHECK(pair.a.completions().size() == 2);
}

TEST_CASE("no more frames are sent at once than the budget allows") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 10'000}, pair.b, 0));
  PartlyShut sink(Qpn{0});
  CHECK(pair.a.nic.poll_transmit(pair.now(), sink, 3) == nic::TransmitStatus::more);
  CHECK(sink.taken == 3);
  CHECK(pair.a.nic.poll_transmit(pair.now(), sink, 100) == nic::TransmitStatus::idle);
  CHECK(sink.taken == 10);
}

namespace {

/// Notes the opcodes of the frames that it takes.
class Notebook final : public FrameSink {
 public:
  MutableBytes reserve(const FrameRoute&, std::size_t bytes) override {
    frame_.resize(bytes);
    return frame_;
  }
  void commit(const PacketNote&) override {
    opcodes.push_back(ib::PacketView::parse(roce::parse_frame(frame_)->transport)->opcode());
  }
  std::vector<ib::Opcode> opcodes;

 private:
  std::vector<std::byte> frame_;
};

/// What b sends when it has both an answer and a request of one packet to send.
std::vector<ib::Opcode> answer_and_request(nic::TransmitOrder order) {
  Pair pair;
  const Connection qps = pair.connect();
  pair.set_room(Side::b, 0);
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.settle();
  pair.post(Side::b, *qps.b, pair.b.write(2, {0, 8}, pair.a, 0));
  Notebook sink;
  CHECK(pair.b.nic.poll_transmit(pair.now(), sink, 64, order) == nic::TransmitStatus::idle);
  return sink.opcodes;
}

}  // namespace

TEST_CASE("answers leave before requests, unless they waited for a request") {
  using enum ib::Opcode;
  CHECK(answer_and_request(nic::TransmitOrder::answers_first) ==
        std::vector{rc_acknowledge, rc_write_only});
  CHECK(answer_and_request(nic::TransmitOrder::requests_first) ==
        std::vector{rc_write_only, rc_acknowledge});
}

TEST_CASE("a NAK that waits for room is not covered up by the answer to a duplicate") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.run_until_idle();
  pair.set_room(Side::b, 0);
  pair.drop(Side::a, has_psn(101));
  // 102 comes behind the gap; then 100 comes once more.
  for (std::uint64_t id = 2; id <= 3; ++id) {
    pair.post(Side::a, *qps.a, pair.a.write(id, {0, 8}, pair.b, 0));
  }
  pair.settle();
  const std::vector<std::byte> first = pair.log()[0].frame;
  CHECK(pair.b.nic.on_frame(pair.now(), first).kind == RxVerdict::Kind::duplicate);
  pair.clear_log();
  pair.set_room(Side::b, Pair::always);
  pair.settle();
  REQUIRE_FALSE(pair.wire(Side::b).empty());
  CHECK(pair.wire(Side::b).front() == "acknowledge 101 nak 60 msn 1");
  CHECK(pair.a.completions() == Lines{"1 write success", "2 write success", "3 write success"});
}

TEST_CASE("a NAK that waits for room is answered by the packet it would have asked for") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.set_room(Side::b, 0);
  pair.delay(Side::a, has_psn(100), 5us);
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.post(Side::a, *qps.a, pair.a.write(2, {0, 8}, pair.b, 0));
  pair.settle();
  pair.set_room(Side::b, Pair::always);
  pair.run_until_idle();
  CHECK(pair.wire(Side::b).front() == "acknowledge 100 ack msn 1");
  CHECK(pair.a.completions() == Lines{"1 write success", "2 write success"});
}

TEST_CASE("a queue pair may be destroyed while its frames wait") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.set_room(Side::a, 0);
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.settle();
  REQUIRE(pair.a.nic.destroy_qp(*qps.a));
  pair.set_room(Side::a, Pair::always);
  pair.run_until_idle();
  CHECK(pair.log().empty());
  CHECK(pair.a.nic.next_timeout() == time_never);
}

TEST_CASE("who answers without end still comes to ask") {
  // Two that READ much from each other, over a way that takes little at a time.
  Pair pair;
  const EndOptions end{.max_rd_atomic = 16, .max_dest_rd_atomic = 16};
  const Connection qps = pair.connect(end, end);
  constexpr int reads = 60;
  for (int i = 0; i < reads; ++i) {
    pair.post(Side::b, *qps.b, pair.b.read(1, {0, 8000}, pair.a, 0));
  }
  pair.set_room(Side::a, 0);
  pair.settle();
  pair.post(Side::a, *qps.a, pair.a.read(2, {0, 8000}, pair.b, 0));
  std::size_t answered = 0;
  bool has_read = false;
  while (answered < reads && !has_read) {
    pair.set_room(Side::a, 8);
    pair.settle();
    answered += pair.b.completions().size();
    has_read = !pair.a.completions().empty();
  }
  CHECK(has_read);
  CHECK(answered < reads / 4);
}

TEST_CASE("the time in which a queue pair waits for its turn costs no retry") {
  Pair pair;
  const Connection qps = pair.connect({.timeout = 8, .retry_cnt = 1});
  pair.post(Side::a, *qps.a, pair.a.write(1, {0, 8}, pair.b, 0));
  pair.drop(Side::a, nth(0));
  pair.settle();
  constexpr Duration timeout = 4096ns * 256;
  for (int i = 1; i <= 8; ++i) {
    pair.a.nic.on_timer(pair.now() + i * timeout);
  }
  CHECK(pair.a.count(Counter::local_ack_timeout_err) == 1);
  pair.run_until_idle();
  CHECK(pair.a.completions() == Lines{"1 write success"});
}

}  // namespace verbena::test
