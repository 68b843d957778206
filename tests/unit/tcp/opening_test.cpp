// Opening, closing and resetting a TCP connection (RFC 9293, 3.5, 3.6, 3.10.7; RFC 5961).
#include <catch2/catch.hpp>

#include "tests/unit/tcp/tcp_pair.h"

namespace verbena::test {

using namespace std::chrono_literals;
using inet::TcpEnd;
using inet::TcpHeader;
using inet::TcpSettings;
using inet::TcpState;
using inet::TcpVerdict;

TEST_CASE("three segments open a connection") {
  TcpPair pair;
  pair.b.listen();
  pair.a.connect();
  pair.settle();
  CHECK(pair.lines() == Lines{"a SYN 0", "b SYN 0 ACK 1", "a ACK 1"});
  CHECK(pair.a.state() == TcpState::established);
  CHECK(pair.b.state() == TcpState::established);
  CHECK(pair.a.next_timeout() == time_never);
}

TEST_CASE("both sides take the smaller segment size, and scale windows if both can") {
  TcpSettings a = TcpPair::settings_of_a();
  TcpSettings b = TcpPair::settings_of_b();
  a.mss = 9000 - 40;
  b.receive_buffer_bytes = 1 << 20;
  TcpPair pair(a, b);
  pair.b.listen();
  pair.a.connect();
  pair.settle();
  CHECK(pair.a.mss() == 1460);
  CHECK(pair.b.mss() == 1460);
  // Not scaled in a SYN (RFC 7323, 2.2); 1 MiB >> 5 is the most that the field holds.
  CHECK(pair.log[1].header.window.value() == 0xFFFF);
  pair.log.clear();
  pair.b.write(pattern(1));
  pair.settle();
  CHECK(pair.log[0].header.window.value() == (1 << 20) >> 5);
}

TEST_CASE("a peer without options gets 536 bytes a segment and windows as they are") {
  TcpPair pair;
  pair.b.listen();
  CHECK(pair.deliver(false, pair.forged(false, TcpHeader::flag_syn, 0, 0)) == TcpVerdict::accepted);
  pair.transmit();
  CHECK(pair.b.mss() == inet::tcp_mss_default);
  CHECK((pair.log[0].header.data_offset >> 4) == 6);  // A segment size, no window scale.
}

TEST_CASE("two that call each other at once get one connection") {
  TcpSettings b = TcpPair::settings_of_b();
  b.peer_port = 40'000;
  TcpPair pair(TcpPair::settings_of_a(), b);
  pair.a.connect();
  pair.b.connect();
  pair.settle();
  CHECK(pair.a.state() == TcpState::established);
  CHECK(pair.b.state() == TcpState::established);
  const Bytes sent = pattern(5000);
  pair.a.write(sent);
  CHECK(pair.run([&] { return pair.b.readable().size() == 5000; }));
  CHECK(TcpPair::read(pair.b) == sent);
}

TEST_CASE("a SYN that nobody answers is sent again at doubling intervals, then given up") {
  TcpSettings a = TcpPair::settings_of_a();
  a.syn_retries_max = 3;
  TcpPair pair(a);
  pair.network = [](const Sent&) { return TcpPair::Fate{}; };
  pair.a.connect();
  CHECK(pair.run([&] { return pair.a.state() == TcpState::closed; }));
  std::vector<Duration> times;
  for (const Sent& sent : pair.log) {
    times.push_back(sent.at - Time{});
  }
  CHECK(times == std::vector<Duration>{0s, 1s, 3s, 7s});
  CHECK(pair.now - Time{} == 15s);
  CHECK(pair.a.end() == TcpEnd::timed_out);
}

TEST_CASE("each segment of the opening may be lost") {
  for (std::size_t lost = 0; lost < 3; ++lost) {
    TcpPair pair;
    pair.network = [&](const Sent&) {
      return pair.log.size() == lost + 1 ? TcpPair::Fate{} : TcpPair::Fate{TcpPair::delay};
    };
    pair.b.listen();
    pair.a.connect();
    INFO("segment " << lost);
    CHECK(pair.run([&] {
      return pair.a.state() == TcpState::established && pair.b.state() == TcpState::established;
    }));
    CHECK(pair.now - Time{} < 1100ms);
  }
}

TEST_CASE("a port where nobody listens refuses") {
  TcpPair pair;
  pair.a.connect();
  pair.transmit();
  const auto syn = inet::parse_tcp(pair.log[0].bytes);
  CHECK(pair.b.on_segment(pair.now, *syn) == TcpVerdict::unknown);
  const auto reset = inet::reset_for(*syn);
  REQUIRE(reset);
  CHECK(pair.deliver(true, bytes_of(*reset)) == TcpVerdict::ended);
  CHECK(pair.a.end() == TcpEnd::refused);
  CHECK_FALSE(inet::reset_for({.header = *reset, .options = {}, .payload = {}}));
}

TEST_CASE("a SYN,ACK that answers something else is refused and changes nothing") {
  TcpPair pair;
  pair.a.connect();
  pair.transmit();
  const auto flags = TcpHeader::flag_syn | TcpHeader::flag_ack;
  CHECK(pair.deliver(true, pair.forged(true, flags, 0, 77)) == TcpVerdict::unknown);
  CHECK(pair.deliver(true, pair.forged(true, TcpHeader::flag_rst, 0, 0)) == TcpVerdict::ignored);
  CHECK(pair.a.state() == TcpState::syn_sent);
}

TEST_CASE("one side ends, then the other") {
  TcpPair pair;
  pair.open();
  pair.a.close(pair.now);
  pair.settle();
  CHECK(pair.a.state() == TcpState::fin_wait_2);
  CHECK(pair.b.state() == TcpState::close_wait);
  CHECK(pair.b.peer_has_ended());
  // The other direction is still there.
  const Bytes sent = pattern(3000);
  pair.b.write(sent);
  pair.settle();
  CHECK(TcpPair::read(pair.a) == sent);
  pair.b.close(pair.now);
  pair.settle();
  CHECK(pair.a.state() == TcpState::time_wait);
  CHECK(pair.b.state() == TcpState::closed);
  CHECK(pair.b.end() == TcpEnd::none);
  const Time waits_from = pair.now;
  CHECK(pair.run([&] { return pair.a.state() == TcpState::closed; }));
  CHECK(pair.now - waits_from <= 60s);
  CHECK(pair.a.end() == TcpEnd::none);
}

TEST_CASE("both sides end at once") {
  TcpPair pair;
  pair.open();
  pair.a.close(pair.now);
  pair.b.close(pair.now);
  pair.transmit();
  CHECK(pair.a.state() == TcpState::fin_wait_1);
  pair.settle();
  CHECK(pair.a.state() == TcpState::time_wait);
  CHECK(pair.b.state() == TcpState::time_wait);
}

TEST_CASE("a FIN that comes again in TIME-WAIT is acknowledged again, and the wait begins anew") {
  TcpPair pair;
  pair.open();
  pair.a.close(pair.now);
  pair.settle();
  pair.b.close(pair.now);
  // b's FIN arrives, the ACK of it is lost.
  pair.network = [](const Sent& sent) {
    return sent.from_a ? TcpPair::Fate{} : TcpPair::Fate{TcpPair::delay};
  };
  pair.settle();
  CHECK(pair.a.state() == TcpState::time_wait);
  CHECK(pair.b.state() == TcpState::last_ack);
  const Time before = pair.a.next_timeout();
  pair.network = [](const Sent&) { return TcpPair::Fate{TcpPair::delay}; };
  CHECK(pair.run([&] { return pair.b.state() == TcpState::closed; }, 10s));
  CHECK(pair.a.next_timeout() > before);
}

TEST_CASE("abort() resets the connection") {
  TcpPair pair;
  pair.open();
  pair.a.write(pattern(100));
  pair.a.abort();
  pair.settle();
  CHECK(pair.lines() == Lines{"a RST"});
  CHECK(pair.a.end() == TcpEnd::aborted);
  CHECK(pair.b.end() == TcpEnd::reset);
}

TEST_CASE("what may be forged is challenged, and changes nothing") {
  TcpPair pair;
  pair.open();
  const auto rst = TcpHeader::flag_rst;
  const auto syn = TcpHeader::flag_syn;
  const auto ack = TcpHeader::flag_ack;
  // RFC 5961: 3 (a reset that isn't exactly next), 4 (a SYN), 5 (ACKs of what was never sent or
  // long ago).
  CHECK(pair.deliver(true, pair.forged(true, rst, 2, 0)) == TcpVerdict::challenged);
  CHECK(pair.deliver(true, pair.forged(true, rst, 1'000'000, 0)) == TcpVerdict::ignored);
  CHECK(pair.deliver(true, pair.forged(true, syn, 1, 0)) == TcpVerdict::challenged);
  CHECK(pair.deliver(true, pair.forged(true, ack, 1, 2)) == TcpVerdict::challenged);
  CHECK(pair.deliver(true, pair.forged(true, ack, 1, -400'000)) == TcpVerdict::challenged);
  CHECK(pair.deliver(true, pair.forged(true, 0, 1, 0, pattern(1))) == TcpVerdict::ignored);
  CHECK(pair.deliver(true, pair.forged(true, ack, 1'000'000, 1, pattern(1))) ==
        TcpVerdict::outside_window);
  CHECK(pair.a.state() == TcpState::established);
  CHECK(pair.a.readable().empty());
  pair.settle();
  CHECK(pair.lines() == Lines{"a ACK 1"});
  // One answer is enough for half a second: two ends that disagree would answer each other for
  // ever.
  CHECK(pair.deliver(true, pair.forged(true, syn, 1, 0)) == TcpVerdict::challenged);
  pair.settle();
  CHECK(pair.log.size() == 1);
  pair.advance(500ms);
  CHECK(pair.deliver(true, pair.forged(true, syn, 1, 0)) == TcpVerdict::challenged);
  pair.settle();
  CHECK(pair.log.size() == 2);
  CHECK(pair.deliver(true, pair.forged(true, rst, 1, 0)) == TcpVerdict::ended);
}

}  // namespace verbena::test
