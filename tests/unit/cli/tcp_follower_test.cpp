// Following a captured TCP stream: whatever the order, overlap and repetition of segments, the
// bytes come out once and in order.
#include "cli/tcp_follower.h"

#include <catch2/catch.hpp>
#include <vector>

#include "base/prng.h"

namespace verbena::cli {
namespace {

using Bytes = std::vector<std::byte>;

/// The bytes of a stream are told apart by their place.
Bytes stream_bytes(std::size_t first, std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>((first + i) * 7 >> 3);
  }
  return bytes;
}

}  // namespace

TEST_CASE("segments in order come out as they come in") {
  TcpFollower follower;
  Bytes out;
  follower.add(999, true, {}, out);
  follower.add(1000, false, stream_bytes(0, 10), out);
  follower.add(1010, false, stream_bytes(10, 5), out);
  CHECK(out == stream_bytes(0, 15));
}

TEST_CASE("a stream whose beginning is not in the capture begins with its first data") {
  TcpFollower follower;
  Bytes out;
  follower.add(77, false, {}, out);
  follower.add(5000, false, stream_bytes(0, 3), out);
  CHECK(out == stream_bytes(0, 3));
}

TEST_CASE("any shuffle of overlapping and repeated segments gives the stream, across the wrap") {
  constexpr std::size_t total = 2000;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Prng prng(seed);
    const auto first = static_cast<std::uint32_t>(0xFFFF'FC00 + prng.below(900));
    TcpFollower follower;
    Bytes out;
    follower.add(first - 1, true, {}, out);
    for (std::size_t sent = 0; out.size() < total; ++sent) {
      REQUIRE(sent < 100'000);
      const std::size_t at = prng.below(total);
      const std::size_t count = 1 + prng.below(std::min<std::size_t>(200, total - at));
      follower.add(first + static_cast<std::uint32_t>(at), false, stream_bytes(at, count), out);
    }
    REQUIRE(out == stream_bytes(0, total));
  }
}

TEST_CASE("a SYN begins another connection") {
  TcpFollower follower;
  Bytes out;
  follower.add(10, true, {}, out);
  follower.add(11, false, stream_bytes(0, 4), out);
  follower.add(9000, true, {}, out);
  follower.add(9001, false, stream_bytes(4, 4), out);
  CHECK(out == stream_bytes(0, 8));
}

TEST_CASE("a gap that is never filled doesn't take memory without end") {
  TcpFollower follower;
  Bytes out;
  follower.add(0, true, {}, out);
  const Bytes piece(1 << 16);
  for (std::uint32_t i = 1; i < 200 && !follower.is_lost(); ++i) {
    follower.add(i << 16, false, piece, out);
  }
  CHECK(follower.is_lost());
  CHECK(out.empty());
}

}  // namespace verbena::cli
