// The parts of a TCP connection, each by itself: options, checksum, timeout, ring, early ranges.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <set>

#include "base/prng.h"
#include "proto/inet/link_address.h"
#include "proto/inet/parse.h"
#include "proto/inet/tcp/byte_ring.h"
#include "proto/inet/tcp/checksum.h"
#include "proto/inet/tcp/early_ranges.h"
#include "proto/inet/tcp/initial_sequence.h"
#include "proto/inet/tcp/options.h"
#include "proto/inet/tcp/retransmission_timeout.h"
#include "proto/inet/tcp/siphash.h"
#include "proto/inet/tcp/unit_ends.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::inet {

using namespace std::chrono_literals;
using test::Bytes;
using test::from_hex;

TEST_CASE("options of a SYN as Linux sends them") {
  // MSS 1460, SACK permitted, timestamps, NOP, window scale 7.
  const Bytes linux_options = from_hex("020405b40402080a5e8f3c2c0000000001030307");
  CHECK(parse_syn_options(linux_options) == TcpSynOptions{.mss = 1460, .window_shift = 7});
  for (const TcpSynOptions& options :
       {TcpSynOptions{}, TcpSynOptions{.mss = 8960, .window_shift = {}},
        TcpSynOptions{.mss = {}, .window_shift = 3},
        TcpSynOptions{.mss = 536, .window_shift = 0}}) {
    Bytes bytes(syn_options_bytes(options));
    emit_syn_options(bytes, options);
    CHECK(bytes.size() % 4 == 0);
    CHECK(parse_syn_options(bytes) == options);
  }
}

TEST_CASE("options that can't be are passed over") {
  CHECK(parse_syn_options(from_hex("0204")) == TcpSynOptions{});        // Cut short.
  CHECK(parse_syn_options(from_hex("0200")) == TcpSynOptions{});        // Shorter than itself.
  CHECK(parse_syn_options(from_hex("0203ff")) == TcpSynOptions{});      // Not the length of an MSS.
  CHECK(parse_syn_options(from_hex("00020405b4")) == TcpSynOptions{});  // Behind the end.
  CHECK(parse_syn_options(from_hex("030320")).window_shift == tcp_window_shift_max);
}

TEST_CASE("the checksum covers addresses, length and every byte") {
  // By an independent program: 10.0.0.1 to 10.0.0.2, ports 1 and 2, "abc".
  const auto v4_source = *Ipv4Address::from_text("10.0.0.1");
  const auto v4_destination = *Ipv4Address::from_text("10.0.0.2");
  Bytes segment = from_hex("000100020000000300000004501000050000000061626300");
  segment.pop_back();
  CHECK(tcp_checksum(v4_source, v4_destination, segment) == 0xD75D);
  const auto v6_source = *Ipv6Address::from_text("fe80::1");
  const auto v6_destination = *Ipv6Address::from_text("fe80::2");
  CHECK(tcp_checksum(v6_source, v6_destination, segment) == 0xEE5B);
}

TEST_CASE("the timeout follows RFC 6298") {
  RetransmissionTimeout timeout(1ms);
  CHECK(timeout.value() == 1s);
  timeout.measure(100ms);
  CHECK(timeout.value() == 300ms);  // 100 + 4 * 50.
  timeout.measure(100ms);
  CHECK(timeout.value() == 100ms + 4 * 37'500us);
  timeout.measure(500ms);
  // SRTT 7/8 * 100 + 1/8 * 500 = 150; RTTVAR 3/4 * 37.5 + 1/4 * 400 = 128.125.
  CHECK(timeout.value() == 150ms + 4 * 128'125us);
  timeout.back_off();
  CHECK(timeout.value() == 2 * (150ms + 4 * 128'125us));
  for (int i = 0; i < 20; ++i) {
    timeout.back_off();
  }
  CHECK(timeout.value() == 60s);
  RetransmissionTimeout patient;
  patient.measure(1us);
  CHECK(patient.value() == 1s);
  patient.syn_was_lost();
  CHECK(patient.value() == 3s);
}

TEST_CASE("a ring of bytes behaves as a queue") {
  Prng prng(1);
  ByteRing ring(97);
  std::deque<std::byte> model;
  for (int turn = 0; turn < 3000; ++turn) {
    Bytes bytes(prng.below(60));
    std::ranges::generate(bytes, [&] { return static_cast<std::byte>(prng.next()); });
    const std::size_t taken = ring.append(bytes);
    CHECK(taken == std::min(bytes.size(), 97 - model.size()));
    model.insert(model.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(taken));
    Bytes all(ring.size());
    ring.copy_out(0, all);
    CHECK(std::ranges::equal(all, model));
    const std::size_t dropped = prng.below(ring.front().size() + 1);
    CHECK(std::equal(ring.front().begin(), ring.front().end(), model.begin()));
    ring.drop_front(dropped);
    model.erase(model.begin(), model.begin() + static_cast<std::ptrdiff_t>(dropped));
  }
}

TEST_CASE("SipHash-2-4 gives what its authors say") {
  const SipKey key{.first = 0x0706'0504'0302'0100, .second = 0x0F0E'0D0C'0B0A'0908};
  Bytes bytes;
  CHECK(siphash(key, bytes) == 0x726f'db47'dd0e'0e31);
  for (unsigned value = 0; value < 15; ++value) {
    bytes.push_back(static_cast<std::byte>(value));
  }
  CHECK(siphash(key, bytes) == 0xa129'ca61'49be'45e5);
}

TEST_CASE("connections begin ahead of the last one of their ends, and where nobody can tell") {
  const SipKey secret{.first = 1, .second = 2};
  const TcpPlace local{.address = mapped({{10, 7, 0, 1}}), .port = 50'000};
  const TcpPlace remote{.address = mapped({{10, 7, 0, 2}}), .port = 7'471};
  const Time now{5s};
  const TcpSeq first = initial_sequence(secret, now, local, remote);
  // A tick each 4 us.
  CHECK(initial_sequence(secret, now + 3us, local, remote) == first);
  CHECK(initial_sequence(secret, now + 4us, local, remote) == first + 1);
  CHECK(initial_sequence(secret, now + 1s, local, remote) == first + 250'000);
  const auto far_from_first = [&](TcpSeq other) { return other != first; };
  CHECK(far_from_first(initial_sequence({.first = 1, .second = 3}, now, local, remote)));
  CHECK(far_from_first(initial_sequence(secret, now, remote, local)));
  TcpPlace next = local;
  ++next.port;
  CHECK(far_from_first(initial_sequence(secret, now, next, remote)));
  TcpPlace other = remote;
  ++other.port;
  CHECK(far_from_first(initial_sequence(secret, now, local, other)));
}

TEST_CASE("ends of units are what a list of them knows") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Prng prng(seed);
    UnitEnds units;
    TcpSeq front(0xFFFF'F000);  // Wraps soon.
    TcpSeq end = front;
    std::deque<TcpSeq> model;
    CHECK_FALSE(units.first_behind(front));
    for (int turn = 0; turn < 300; ++turn) {
      if (prng.below(3) != 0 && model.size() < UnitEnds::ends_max) {
        const TcpSeq begin = end;
        end = end + static_cast<std::uint32_t>(1 + prng.below(100));
        units.add(begin, end, end, 1);  // Too long to be joined.
        model.push_back(end);
      } else if (!model.empty()) {
        front = front + static_cast<std::uint32_t>(prng.below(bytes_between(front, end) + 1));
        units.drop_until(front);
        std::erase_if(model, [&](TcpSeq each) { return !each.is_after(front); });
      }
      const auto bytes = static_cast<std::uint32_t>(prng.below(300));
      const TcpSeq from = front + static_cast<std::uint32_t>(prng.below(300));
      const auto behind = std::ranges::find_if(model, [&](TcpSeq at) { return at.is_after(from); });
      CHECK(units.first_behind(from) ==
            (behind != model.end() ? std::optional(*behind) : std::nullopt));
      std::optional<TcpSeq> last;
      for (const TcpSeq at : model) {
        last = at.is_after(from) && !at.is_after(from + bytes) ? std::optional(at) : last;
      }
      CHECK(units.last_within(from, bytes) == last);
    }
  }
}

TEST_CASE("small units that wait are joined up to a segment, and when there are too many") {
  constexpr std::uint32_t segment_bytes = 1460;
  const TcpSeq begin(0);
  UnitEnds units;
  for (std::uint32_t i = 0; i < 20; ++i) {
    units.add(begin + i * 100, begin + (i + 1) * 100, begin, segment_bytes);
  }
  CHECK(units.first_behind(begin) == begin + 1400);
  CHECK(units.first_behind(begin + 1400) == begin + 2000);
  UnitEnds many;
  constexpr std::uint32_t all = UnitEnds::ends_max + 5;
  for (std::uint32_t i = 0; i < all; ++i) {
    many.add(begin + i, begin + i + 1, begin + i + 1, 1);
  }
  CHECK(many.first_behind(begin + (UnitEnds::ends_max - 1)) == begin + all);
}

TEST_CASE("early ranges know what a set of bytes knows") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Prng prng(seed);
    EarlyRanges ranges;
    std::set<std::uint32_t> model;
    for (int turn = 0; turn < 100; ++turn) {
      if (prng.below(4) != 0) {
        const auto begin = static_cast<std::uint32_t>(1 + prng.below(300));
        const auto bytes = static_cast<std::uint32_t>(1 + prng.below(20));
        if (ranges.add(begin, bytes)) {
          for (std::uint32_t at = begin; at < begin + bytes; ++at) {
            model.insert(at);
          }
        }
        continue;
      }
      const auto bytes = static_cast<std::uint32_t>(1 + prng.below(15));
      std::uint32_t front = bytes;
      while (model.contains(front)) {
        ++front;
      }
      CHECK(ranges.advance(bytes) == front - bytes);
      std::set<std::uint32_t> moved;
      for (const std::uint32_t at : model) {
        if (at >= front) {
          moved.insert(at - front);
        }
      }
      model = std::move(moved);
      CHECK(ranges.empty() == model.empty());
    }
  }
}

}  // namespace verbena::inet
