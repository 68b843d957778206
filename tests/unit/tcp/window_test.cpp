// Flow control and when acknowledgements are sent (RFC 9293, 3.8.6).
#include <catch2/catch.hpp>

#include "tests/unit/tcp/tcp_pair.h"

namespace verbena::test {

using namespace std::chrono_literals;
using inet::RetransmissionTimeout;
using inet::TcpHeader;
using inet::TcpSettings;
using inet::TcpVerdict;

namespace {

TcpSettings small_receiver() {
  TcpSettings b = TcpPair::settings_of_b();
  b.receive_buffer_bytes = 4000;
  return b;
}

}  // namespace

TEST_CASE("every second full segment is acknowledged at once, a single one a little later") {
  TcpPair pair;
  pair.open();
  pair.a.write(pattern(2 * 1460));
  pair.settle();
  CHECK(pair.lines() == Lines{"a 1+1460 ACK 1", "a 1461+1460 ACK 1", "b ACK 2921"});
  pair.log.clear();
  pair.a.write(pattern(100));
  const Time start = pair.now;
  CHECK(pair.run([&] { return pair.a.unacknowledged_bytes() == 0; }));
  CHECK(pair.lines() == Lines{"a 2921+100 ACK 1", "b ACK 3021"});
  CHECK(pair.now - start == 2 * TcpPair::delay + 40ms);
}

TEST_CASE("an acknowledgement travels with data that go the other way") {
  TcpPair pair;
  pair.open();
  pair.a.write(pattern(100));
  pair.settle();
  pair.b.write(pattern(50));
  pair.settle();
  CHECK(pair.lines() == Lines{"a 1+100 ACK 1", "b 1+50 ACK 101"});
}

TEST_CASE("a receiver that doesn't read stops the sender, and reading lets it go on") {
  TcpPair pair(TcpPair::settings_of_a(), small_receiver());
  pair.open();
  const Bytes sent = pattern(10'000);
  pair.a.write(sent);
  pair.advance(500ms);
  CHECK(pair.b.readable().size() + 2000 > 4000);
  CHECK(pair.a.unacknowledged_bytes() >= 6000);
  Bytes read;
  for (int turn = 0; turn < 20 && read.size() < sent.size(); ++turn) {
    const Bytes piece = TcpPair::read(pair.b);
    read.insert(read.end(), piece.begin(), piece.end());
    pair.advance(100ms);
  }
  CHECK(read == sent);
  CHECK(pair.a.statistics().timeouts == 0);
}

TEST_CASE("a closed window is probed for as long as the peer answers") {
  TcpSettings a = TcpPair::settings_of_a();
  a.retries_max = 3;
  TcpPair pair(a, small_receiver());
  pair.open();
  pair.a.write(pattern(6000));
  pair.advance(5min);
  CHECK(pair.a.state() == inet::TcpState::established);
  CHECK(pair.a.statistics().window_probes >= 5);
  // The update that reading causes is lost; the next probe finds out.
  pair.network = [](const Sent& sent) {
    return sent.from_a ? TcpPair::Fate{TcpPair::delay} : TcpPair::Fate{};
  };
  Bytes read = TcpPair::read(pair.b);
  pair.settle();
  pair.network = [](const Sent&) { return TcpPair::Fate{TcpPair::delay}; };
  CHECK(pair.run(
      [&] {
        const Bytes piece = TcpPair::read(pair.b);
        read.insert(read.end(), piece.begin(), piece.end());
        return read.size() == 6000;
      },
      5min));
  CHECK(read == pattern(6000));
}

TEST_CASE("what a closed window refused is sent again as soon as it opens") {
  // The probes are a minute apart by now; what is sent must not wait for the next one.
  TcpPair pair(TcpPair::settings_of_a(), small_receiver());
  pair.open();
  const Bytes sent = pattern(4100);
  pair.a.write(sent);
  pair.advance(5min);
  CHECK(pair.a.unacknowledged_bytes() > 0);
  pair.log.clear();
  const Time start = pair.now;
  Bytes read = TcpPair::read(pair.b);
  CHECK(pair.run(
      [&] {
        const Bytes piece = TcpPair::read(pair.b);
        read.insert(read.end(), piece.begin(), piece.end());
        return pair.a.unacknowledged_bytes() == 0;
      },
      1s));
  CHECK(read == sent);
  CHECK(pair.now - start < 200ms);
  CHECK(pair.a.retransmission_timeout() == RetransmissionTimeout::min_default);
}

TEST_CASE("two that don't read hear of each other's windows") {
  // Each has sent a byte beyond the other's window, and must not tell its own from there: the other
  // would refuse the segment.
  TcpSettings a = TcpPair::settings_of_a();
  a.receive_buffer_bytes = 4000;
  TcpPair pair(a, small_receiver());
  pair.open();
  pair.a.write(pattern(6000, 1));
  pair.b.write(pattern(6000, 2));
  pair.advance(1min);
  CHECK(pair.a.statistics().window_probes > 0);
  CHECK(pair.b.statistics().window_probes > 0);
  Bytes read = TcpPair::read(pair.a);
  CHECK(pair.run(
      [&] {
        const Bytes piece = TcpPair::read(pair.a);
        read.insert(read.end(), piece.begin(), piece.end());
        return read.size() == 6000 && pair.b.unacknowledged_bytes() == 0;
      },
      1s));
  CHECK(read == pattern(6000, 2));
  CHECK(pair.a.unacknowledged_bytes() > 0);
}

TEST_CASE("a window that is open a little is used after a while") {
  // RFC 9293, 3.8.6.2.1: sending little is silly, sending nothing is worse.
  TcpPair pair;
  pair.open();
  pair.a.write(pattern(100));
  pair.advance(100ms);
  constexpr std::uint16_t little = 80;
  constexpr unsigned scale = 8;  // Of b's buffer of 256 KiB.
  CHECK(pair.deliver(true, pair.forged(true, TcpHeader::flag_ack, 1, 101, {}, little)) ==
        TcpVerdict::accepted);
  pair.network = [](const Sent&) { return TcpPair::Fate{}; };
  pair.a.write(pattern(5000));
  pair.log.clear();
  pair.settle();
  CHECK(pair.log.empty());
  pair.advance(1500ms);
  REQUIRE(pair.log.size() == 1);
  CHECK(pair.log[0].payload_bytes == little * scale);
}

TEST_CASE("a closed window of a dead peer is given up") {
  TcpSettings a = TcpPair::settings_of_a();
  a.retries_max = 3;
  TcpPair pair(a, small_receiver());
  pair.open();
  pair.a.write(pattern(6000));
  pair.advance(2s);
  pair.network = [](const Sent&) { return TcpPair::Fate{}; };
  CHECK(pair.run([&] { return pair.a.state() == inet::TcpState::closed; }));
  CHECK(pair.a.end() == inet::TcpEnd::timed_out);
}

TEST_CASE("a little room in a full buffer is not worth a segment") {
  TcpPair pair(TcpPair::settings_of_a(), small_receiver());
  pair.open();
  pair.a.write(pattern(6000));
  pair.advance(500ms);
  pair.log.clear();
  pair.b.consume(10);
  pair.settle();
  CHECK(pair.log.empty());
  pair.b.consume(pair.b.readable().size());
  pair.settle();
  CHECK_FALSE(pair.log.empty());
}

TEST_CASE("a sink without room loses nothing") {
  struct Shut final : inet::TcpSegmentSink {
    MutableBytes reserve(std::size_t) override { return {}; }
    void commit(inet::TcpResend) override { FAIL("nothing was reserved"); }
  };
  TcpPair pair;
  pair.open();
  const Bytes sent = pattern(5000);
  pair.a.write(sent);
  Shut shut;
  std::uint32_t budget = 10;
  CHECK(pair.a.poll_transmit(pair.now, shut, budget) == inet::TcpTransmitted::blocked);
  CHECK(budget == 10);
  pair.settle();
  CHECK(TcpPair::read(pair.b) == sent);
}

}  // namespace verbena::test
