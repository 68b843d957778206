// Units of a stream: where segments are cut (RFC 5044, 5: FPDU alignment).
#include <catch2/catch.hpp>
#include <set>
#include <utility>

#include "base/prng.h"
#include "tests/unit/tcp/tcp_pair.h"

namespace verbena::test {

using namespace std::chrono_literals;
using inet::TcpSettings;

namespace {

/// Writes units as there is room for them, and knows where they begin.
class Units {
 public:
  explicit Units(Bytes all) : all_(std::move(all)) {}

  /// False if there is no room for the next one.
  bool write_next(inet::TcpConnection& tcp, std::size_t bytes) {
    const std::size_t taken = std::min(bytes, all_.size() - written_);
    if (taken == 0 || !tcp.write_unit(ByteView(all_).subspan(written_, taken))) {
      return false;
    }
    written_ += taken;
    bounds_.insert(static_cast<std::uint32_t>(1 + written_));
    return true;
  }
  [[nodiscard]] bool is_bound(std::uint32_t sequence) const { return bounds_.contains(sequence); }
  [[nodiscard]] bool all_is_written() const { return written_ == all_.size(); }

 private:
  Bytes all_;
  std::size_t written_ = 0;
  std::set<std::uint32_t> bounds_{1};
};

}  // namespace

TEST_CASE("segments hold whole units, whatever is lost") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Prng prng(seed);
    INFO("seed " << seed);
    TcpSettings a = TcpPair::settings_of_a();
    a.send_buffer_bytes = 40'000;
    TcpPair pair(a);
    pair.open();
    pair.network = [&](const Sent&) {
      return prng.below(100) < 10 ? TcpPair::Fate{} : TcpPair::Fate{TcpPair::delay};
    };
    const Bytes sent = pattern(200'000);
    Units units(sent);
    Bytes read;
    const bool is_through = pair.run([&] {
      const auto most = prng.below(2) == 0 ? pair.a.mss() : 100U;
      while (units.write_next(pair.a, 1 + prng.below(most))) {
      }
      pair.transmit();
      const Bytes piece = TcpPair::read(pair.b);
      read.insert(read.end(), piece.begin(), piece.end());
      return units.all_is_written() && pair.a.unacknowledged_bytes() == 0;
    });
    REQUIRE(is_through);
    CHECK(read == sent);
    for (const Sent& segment : pair.log) {
      if (segment.from_a && segment.payload_bytes > 0) {
        CHECK(units.is_bound(segment.sequence));
        CHECK(units.is_bound(segment.sequence + static_cast<std::uint32_t>(segment.payload_bytes)));
      }
    }
  }
}

TEST_CASE("small units share a segment") {
  TcpPair pair;
  pair.open();
  for (int i = 0; i < 20; ++i) {
    CHECK(pair.a.write_unit(pattern(100)));
  }
  pair.settle();
  CHECK(pair.lines() == Lines{"a 1+1400 ACK 1", "a 1401+600 ACK 1"});
}

TEST_CASE("a unit is taken whole or not at all") {
  TcpSettings a = TcpPair::settings_of_a();
  a.send_buffer_bytes = 1000;
  TcpPair pair(a);
  pair.open();
  CHECK(pair.a.write_unit(pattern(700)));
  CHECK_FALSE(pair.a.write_unit(pattern(301)));
  CHECK(pair.a.unacknowledged_bytes() == 700);
  CHECK(pair.a.write_unit(pattern(300)));
  pair.a.close(pair.now);
  CHECK_FALSE(pair.a.write_unit(pattern(1)));
}

TEST_CASE("a unit that no window holds is cut") {
  TcpSettings b = TcpPair::settings_of_b();
  b.receive_buffer_bytes = 700;
  TcpPair pair(TcpPair::settings_of_a(), b);
  pair.open();
  const Bytes sent = pattern(5 * 1000);
  Units units(sent);
  while (units.write_next(pair.a, 1000)) {
  }
  CHECK(units.all_is_written());
  Bytes read;
  CHECK(pair.run(
      [&] {
        const Bytes piece = TcpPair::read(pair.b);
        read.insert(read.end(), piece.begin(), piece.end());
        pair.transmit();
        return read.size() == sent.size();
      },
      1min));
  CHECK(read == sent);
}

}  // namespace verbena::test
