// Opening, closing and resetting a TCP connection (RFC 9293, 3.5, 3.6, 3.10.7; RFC 5961).
#include <algorithm>
#include <array>
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

TEST_CASE("segments don't get as small as a peer may ask for") {
  for (const unsigned mss : {0U, 1U, 47U}) {
    TcpPair pair;
    pair.b.listen();
    const std::array options{std::byte{2}, std::byte{4}, std::byte{0}, static_cast<std::byte>(mss)};
    Bytes syn = pair.forged(false, TcpHeader::flag_syn, 0, 0, options);
    constexpr std::size_t data_offset_at = 12;
    syn[data_offset_at] = std::byte{6 << 4};  // What was a payload are options.
    CHECK(pair.deliver(false, syn) == TcpVerdict::accepted);
    CHECK(pair.b.mss() == inet::tcp_mss_min);
  }
}

TEST_CASE("a window is as large as its scale makes it, and no larger") {
  // RFC 7323, 2.3: the largest shift is 14, and what is asked for beyond is taken for that.
  TcpPair pair;
  pair.b.listen();
  const std::array options{std::byte{1}, std::byte{3}, std::byte{3}, std::byte{0xFF}};
  Bytes syn = pair.forged(false, TcpHeader::flag_syn, 0, 0, options, 1);
  constexpr std::size_t data_offset_at = 12;
  syn[data_offset_at] = std::byte{6 << 4};
  CHECK(pair.deliver(false, syn) == TcpVerdict::accepted);
  pair.transmit();
  CHECK(pair.deliver(false, pair.forged(false, TcpHeader::flag_ack, 1, 1, {}, 1)) ==
        TcpVerdict::accepted);
  pair.b.write(pattern(1 << 16));
  pair.log.clear();
  pair.settle();
  std::size_t sent = 0;
  for (const Sent& each : pair.log) {
    sent += each.payload_bytes;
  }
  CHECK(sent <= (1U << 14));
  CHECK(sent + pair.b.mss() > std::min<std::size_t>(1U << 14, pair.b.congestion_window()));
}

TEST_CASE("urgent data are data, in their place") {
  // RFC 9293, 3.8.5: the pointer is a hint to programs, and ours takes none.
  TcpPair pair;
  pair.open();
  constexpr std::uint8_t flag_urg = 0x20;
  const Bytes sent = pattern(100);
  Bytes segment = pair.forged(true, TcpHeader::flag_ack | flag_urg, 1, 1, sent);
  constexpr std::size_t urgent_at = 18;
  for (const unsigned pointer : {0U, 1U, 255U}) {
    segment[urgent_at] = segment[urgent_at + 1] = static_cast<std::byte>(pointer);
    static_cast<void>(pair.deliver(true, segment));
  }
  CHECK(TcpPair::read(pair.a) == sent);
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
