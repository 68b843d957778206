// Random networks and hostile peers: what arrives is what was sent, connections end, and nothing
// that a stranger sends breaks one.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/prng.h"
#include "tests/unit/tcp/tcp_pair.h"

namespace verbena::test {

using namespace std::chrono_literals;
using inet::TcpEnd;
using inet::TcpSettings;
using inet::TcpState;

namespace {

/// One side's program: writes `sent` in pieces, then closes; reads in pieces.
struct Program {
  inet::TcpConnection& tcp;
  Bytes sent;
  std::size_t written = 0;
  bool closed = false;
  Bytes read;

  void turn(Time now, Prng& prng) {
    const std::size_t left = sent.size() - written;
    const std::size_t piece = std::min<std::size_t>(left, 1 + prng.below(5000));
    written += tcp.write(ByteView(sent).subspan(written, piece));
    if (written == sent.size() && !closed && tcp.state() != TcpState::syn_sent &&
        tcp.state() != TcpState::listen) {
      tcp.close(now);
      closed = true;
    }
    const ByteView here = tcp.readable();
    const std::size_t taken = std::min<std::size_t>(here.size(), 1 + prng.below(5000));
    read.insert(read.end(), here.begin(), here.begin() + static_cast<std::ptrdiff_t>(taken));
    tcp.consume(taken);
  }
};

TcpSettings drawn(TcpSettings settings, Prng& prng) {
  settings.mss = static_cast<std::uint16_t>(100 + prng.below(2000));
  settings.send_buffer_bytes = static_cast<std::uint32_t>(500 + prng.below(100'000));
  settings.receive_buffer_bytes = static_cast<std::uint32_t>(500 + prng.below(200'000));
  settings.retransmission_timeout_min = 50ms;
  settings.retries_max = 60;
  settings.syn_retries_max = 60;
  return settings;
}

}  // namespace

TEST_CASE("whatever the network does, what arrives is what was sent") {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Prng prng(seed);
    INFO("seed " << seed);
    const TcpSettings settings_a = drawn(TcpPair::settings_of_a(), prng);
    const TcpSettings settings_b = drawn(TcpPair::settings_of_b(), prng);
    TcpPair pair(settings_a, settings_b);
    const std::uint64_t loss_percent = prng.below(20);
    const std::uint64_t odd_percent = prng.below(30);
    pair.network = [&](const Sent&) {
      const auto takes = [&] { return 1ms * prng.below(20) + 1ms; };
      if (prng.below(100) < loss_percent) {
        return TcpPair::Fate{};
      }
      return prng.below(100) < odd_percent ? TcpPair::Fate{takes(), takes() * 10}
                                           : TcpPair::Fate{10ms};
    };
    Program a{.tcp = pair.a, .sent = pattern(prng.below(60'000), 1), .read = {}};
    Program b{.tcp = pair.b, .sent = pattern(prng.below(60'000), 2), .read = {}};
    pair.b.listen();
    pair.a.connect();
    const bool ended = pair.run(
        [&] {
          a.turn(pair.now, prng);
          b.turn(pair.now, prng);
          pair.transmit();
          return pair.a.state() == TcpState::closed && pair.b.state() == TcpState::closed;
        },
        24h);
    INFO(inet::name_of(pair.a.state()) << ", " << inet::name_of(pair.b.state()));
    REQUIRE(ended);
    for (Program* program : {&a, &b}) {
      const Bytes rest = TcpPair::read(program->tcp);
      program->read.insert(program->read.end(), rest.begin(), rest.end());
    }
    REQUIRE(b.read == a.sent);
    REQUIRE(a.read == b.sent);
    REQUIRE(pair.a.end() == TcpEnd::none);
    REQUIRE(pair.b.end() == TcpEnd::none);
  }
}

TEST_CASE("no segment of a stranger breaks a connection") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Prng prng(seed);
    TcpPair pair;
    pair.open();
    pair.a.write(pattern(20'000));
    for (int turn = 0; turn < 300; ++turn) {
      const auto near_number = [&] {
        return prng.below(8) == 0 ? static_cast<std::int64_t>(prng.below(1U << 31))
                                  : static_cast<std::int64_t>(prng.below(60'000)) - 20'000;
      };
      const Bytes payload = pattern(prng.below(3000), static_cast<unsigned>(turn));
      const Bytes segment =
          pair.forged(true, static_cast<std::uint8_t>(prng.next()), near_number(), near_number(),
                      payload, static_cast<std::uint16_t>(prng.next()));
      static_cast<void>(pair.deliver(true, segment));
      if (prng.below(4) == 0) {
        pair.advance(1ms * prng.below(2000));
      }
      pair.transmit();
      if (prng.below(3) == 0) {
        TcpPair::read(pair.a);
      }
    }
    // Every segment that it sent stays within what it may say.
    for (const Sent& sent : pair.log) {
      REQUIRE(sent.payload_bytes <= pair.a.mss());
    }
  }
}

}  // namespace verbena::test
