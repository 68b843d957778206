// What TCP does about loss, duplicates and delay (RFC 9293, 3.8; RFC 6298, 5681, 6582).
#include <catch2/catch.hpp>
#include <set>

#include "tests/unit/tcp/tcp_pair.h"

namespace verbena::test {

using namespace std::chrono_literals;
using inet::CongestionControl;
using inet::TcpEnd;
using inet::TcpHeader;
using inet::TcpResend;
using inet::TcpSeq;
using inet::TcpSettings;
using inet::TcpState;

namespace {

/// Loses the first copy of the segments with these (counted) sequence numbers.
TcpPair::Network loses(std::set<std::uint32_t> sequences) {
  return [sequences](const Sent& sent) {
    const bool lost = sent.from_a && sent.payload_bytes > 0 && sent.why == TcpResend::none &&
                      sequences.contains(sent.sequence);
    return lost ? TcpPair::Fate{} : TcpPair::Fate{TcpPair::delay};
  };
}

/// Lines of side a that were sent again.
Lines sent_again(const TcpPair& pair) {
  Lines lines;
  for (const Sent& sent : pair.log) {
    if (sent.from_a && sent.why != TcpResend::none) {
      lines.push_back(describe(sent));
    }
  }
  return lines;
}

/// An exchange of a few segments each way and its end. True if all went as it should.
bool exchange(TcpPair& pair) {
  const Bytes from_a = pattern(6000, 1);
  const Bytes from_b = pattern(4000, 2);
  pair.b.listen();
  pair.a.connect();
  bool ok = pair.run([&] { return pair.a.state() == TcpState::established; });
  pair.a.write(from_a);
  pair.a.close(pair.now);
  ok = ok && pair.run([&] { return pair.b.state() == TcpState::close_wait; });
  ok = ok && TcpPair::read(pair.b) == from_a;
  pair.b.write(from_b);
  pair.b.close(pair.now);
  ok = ok && pair.run([&] {
    return pair.a.state() == TcpState::closed && pair.b.state() == TcpState::closed;
  });
  ok = ok && TcpPair::read(pair.a) == from_b;
  return ok && pair.a.end() == TcpEnd::none && pair.b.end() == TcpEnd::none;
}

}  // namespace

TEST_CASE("any one segment of a connection may be lost, come twice or come late") {
  TcpPair whole;
  REQUIRE(exchange(whole));
  REQUIRE(whole.log.size() > 12);
  const std::vector<TcpPair::Fate> fates{
      {}, {TcpPair::delay, TcpPair::delay}, {TcpPair::delay, 5s}, {25ms}, {5s}};
  for (const TcpPair::Fate& fate : fates) {
    for (std::size_t nth = 0; nth < whole.log.size(); ++nth) {
      TcpPair pair;
      pair.network = [&, count = std::size_t{0}](const Sent&) mutable {
        return count++ == nth ? fate : TcpPair::Fate{TcpPair::delay};
      };
      INFO("segment " << nth << " " << describe(whole.log[nth]) << ", copies " << fate.size());
      CHECK(exchange(pair));
    }
  }
}

TEST_CASE("the third duplicate ACK sends the missing segment again, the second doesn't") {
  TcpPair pair;
  pair.open();
  // The first window that isn't that of the SYN: an ACK that changes the window is no duplicate.
  pair.b.write(pattern(1));
  pair.settle();
  pair.network = loses({1});
  pair.a.write(pattern(3 * 1460));
  pair.settle();  // Two segments behind the lost one: two duplicates.
  CHECK(sent_again(pair).empty());
  pair.a.write(pattern(1460));
  pair.settle();
  CHECK(sent_again(pair) == Lines{"a 1+1460 ACK 2 (duplicate ACKs)"});
  CHECK(pair.a.statistics().fast_retransmits == 1);
  CHECK(pair.a.statistics().timeouts == 0);
  CHECK(pair.a.unacknowledged_bytes() == 0);
}

TEST_CASE("several losses in one window are repaired without a timeout") {
  // NewReno: each partial ACK sends the next missing one (RFC 6582, 3.2).
  TcpPair pair;
  pair.open();
  pair.network = loses({1, 2 * 1460 + 1, 5 * 1460 + 1});
  const Bytes sent = pattern(10 * 1460);
  pair.a.write(sent);
  pair.settle();
  CHECK(sent_again(pair) == Lines{"a 1+1460 ACK 1 (duplicate ACKs)",
                                  "a 2921+1460 ACK 1 (duplicate ACKs)",
                                  "a 7301+1460 ACK 1 (duplicate ACKs)"});
  CHECK(pair.a.statistics().timeouts == 0);
  CHECK(TcpPair::read(pair.b) == sent);
}

TEST_CASE("a lost tail waits for the retransmission timeout") {
  TcpSettings a = TcpPair::settings_of_a();
  a.retransmission_timeout_min = 200ms;
  TcpPair pair(a);
  pair.open();
  // One round trip of 20 ms was measured: RTO = 20 + 4 * 10, less than the least.
  CHECK(pair.a.retransmission_timeout() == 200ms);
  pair.network = loses({1461});
  const Time start = pair.now;
  pair.a.write(pattern(2 * 1460));
  CHECK(pair.run([&] { return pair.a.unacknowledged_bytes() == 0; }));
  CHECK(sent_again(pair) == Lines{"a 1461+1460 ACK 1 (timeout)"});
  // The timer began anew when the first segment was acknowledged, 40 ms late.
  CHECK(pair.now - start >= 200ms);
  CHECK(pair.now - start <= 320ms);
}

TEST_CASE("a dead peer costs all retries, at doubling intervals") {
  TcpSettings a = TcpPair::settings_of_a();
  a.retries_max = 4;
  TcpPair pair(a);
  pair.open();
  pair.network = [](const Sent&) { return TcpPair::Fate{}; };
  const Time start = pair.now;
  pair.a.write(pattern(100));
  CHECK(pair.run([&] { return pair.a.state() == TcpState::closed; }));
  CHECK(pair.a.end() == TcpEnd::timed_out);
  CHECK(pair.now - start == 1s + 2s + 4s + 8s + 16s);
  CHECK(pair.log.size() == 5);
}

TEST_CASE("a peer that only repeats itself doesn't keep a connection") {
  // What is sent again and never acknowledged ends it (RFC 9293, 3.8.3); an ACK of nothing new is
  // no progress.
  TcpSettings a = TcpPair::settings_of_a();
  a.retries_max = 5;
  TcpPair pair(a);
  pair.open();
  pair.network = [](const Sent&) { return TcpPair::Fate{}; };
  pair.a.write(pattern(1000));
  for (int turn = 0; turn < 300 && pair.a.state() != TcpState::closed; ++turn) {
    static_cast<void>(pair.deliver(true, pair.forged(true, TcpHeader::flag_ack, 1, 1)));
    pair.advance(1s);
  }
  CHECK(pair.a.state() == TcpState::closed);
  CHECK(pair.a.end() == TcpEnd::timed_out);
}

TEST_CASE("a reset after timeouts is where the peer believes it") {
  // The peer has all and its ACKs are lost: a reset from where the sender began again would be old.
  TcpPair pair;
  pair.open();
  pair.network = [](const Sent& sent) {
    return sent.from_a ? TcpPair::Fate{TcpPair::delay} : TcpPair::Fate{};
  };
  pair.a.write(pattern(3000));
  pair.settle();
  pair.network = [](const Sent&) { return TcpPair::Fate{}; };
  pair.advance(4s);
  CHECK(pair.a.statistics().timeouts > 0);
  pair.network = [](const Sent&) { return TcpPair::Fate{TcpPair::delay}; };
  pair.a.abort();
  pair.settle();
  CHECK(pair.b.state() == TcpState::closed);
  CHECK(pair.b.end() == TcpEnd::reset);
}

TEST_CASE("the congestion window ends where windows end") {
  // 4 GiB without a loss, and duplicates without end: it would wrap to nothing.
  constexpr std::uint32_t mss = 65'000;
  CongestionControl lossless(mss);
  TcpSeq una(1);
  for (std::uint32_t i = 0; i < 70'000; ++i) {
    static_cast<void>(lossless.on_new_ack(una, una + mss, una + mss));
    una = una + mss;
  }
  CHECK(lossless.window_bytes() == CongestionControl::window_bytes_max);
  CongestionControl repeated(mss);
  for (std::uint32_t i = 0; i < 70'000; ++i) {
    static_cast<void>(repeated.on_duplicate_ack(TcpSeq(1), TcpSeq(1) + 10 * mss));
  }
  CHECK(repeated.in_recovery());
  CHECK(repeated.window_bytes() == CongestionControl::window_bytes_max);
}

TEST_CASE("an answer that is slow once makes the timeout longer, not the connection fail") {
  TcpPair pair;
  pair.open();
  pair.network = [](const Sent& sent) { return TcpPair::Fate{sent.from_a ? TcpPair::delay : 3s}; };
  pair.a.write(pattern(100));
  CHECK(pair.run([&] { return pair.a.unacknowledged_bytes() == 0; }));
  // Karn: what was sent twice is not measured, the backed-off timeout stays (RFC 6298, 5.7).
  CHECK(pair.a.retransmission_timeout() == 4s);
}

TEST_CASE("a segment that comes ahead of its turn is kept") {
  TcpPair pair;
  pair.open();
  pair.network = [](const Sent& sent) {
    return TcpPair::Fate{sent.from_a && sent.sequence == 1 ? 15ms : TcpPair::delay};
  };
  const Bytes sent = pattern(2 * 1460);
  pair.a.write(sent);
  pair.settle();
  CHECK(pair.b.statistics().early_segments == 1);
  CHECK(sent_again(pair).empty());
  CHECK(TcpPair::read(pair.b) == sent);
}

TEST_CASE("slow start doubles what is in flight, and a timeout begins with one segment") {
  TcpPair pair;
  pair.open();
  CHECK(pair.a.congestion_window() == 10 * 1460);
  pair.a.write(pattern(200'000));
  pair.advance(25ms);
  // Each ACK of two segments adds one (RFC 5681, 3.1).
  CHECK(pair.a.congestion_window() >= 15 * 1460);
  pair.network = [](const Sent&) { return TcpPair::Fate{}; };
  CHECK(pair.run([&] { return pair.a.statistics().timeouts == 1; }));
  CHECK(pair.a.congestion_window() == 1460);
}

TEST_CASE("behind a loss the window is halved and then grows by a segment a round trip") {
  TcpSettings a = TcpPair::settings_of_a();
  TcpSettings b = TcpPair::settings_of_b();
  a.send_buffer_bytes = b.receive_buffer_bytes = 1 << 22;
  TcpPair pair(a, b);
  pair.open();
  pair.network = loses({40 * 1460 + 1});
  pair.a.write(pattern(1 << 22));
  CHECK(pair.run([&] { return pair.a.statistics().fast_retransmits == 1; }));
  pair.advance(2 * 2 * TcpPair::delay);
  const auto window = pair.a.congestion_window();
  pair.advance(10 * 2 * TcpPair::delay);
  CHECK(pair.a.congestion_window() >= window + 8 * 1460);
  CHECK(pair.a.congestion_window() <= window + 11 * 1460);
  CHECK(pair.a.statistics().timeouts == 0);
}

}  // namespace verbena::test
