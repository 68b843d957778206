// Rate limits of send queues: how fast frames leave, what may be made up for, and what is not held
// back (ibv_modify_qp_rate_limit(3)).
#include <catch2/catch.hpp>

#include "nic_model/pacer.h"
#include "tests/support/pair.h"

namespace verbena::test {

using namespace std::chrono_literals;
using nic::NicError;
using nic::Pacer;

namespace {

constexpr std::uint32_t kbps_of_100_mbps = 100'000;

/// 16 WRITEs of 1024 bytes, a frame of 1098 bytes each: 140,544 bits, 1.4 ms at 100 Mb/s.
void post_writes(Pair& pair, Side side, nic::Qp& qp) {
  Host& from = pair.host(side);
  const Host& to = pair.host(side == Side::a ? Side::b : Side::a);
  for (std::uint64_t id = 0; id < 16; ++id) {
    pair.post(side, qp, from.write(id, {0, 1024}, to, 0));
  }
}

}  // namespace

TEST_CASE("a pacer spreads packets by their length") {
  Pacer pacer;
  pacer.set({.kbps = 8'000});  // A byte a microsecond.
  Time now = Time{} + 1s;
  CHECK(pacer.permits(now));
  pacer.sent(now, 1000);
  CHECK(pacer.next() == now + 1000us - nic::pacing_slack);
  CHECK_FALSE(pacer.permits(now));
  now = pacer.next();
  pacer.sent(now, 1000);
  CHECK(pacer.next() == now + 1000us);
}

TEST_CASE("what an idle queue may make up for is its burst") {
  Pacer pacer;
  pacer.set({.kbps = 8'000, .burst_bytes = 5000});
  const Time now = Time{} + 1s;
  int packets = 0;
  for (; pacer.permits(now); ++packets) {
    pacer.sent(now, 1000);
  }
  CHECK(packets == 6);  // The burst, and one that goes beyond it.
}

TEST_CASE("without a limit nothing is ever held back") {
  Pacer pacer;
  for (int i = 0; i < 1000; ++i) {
    pacer.sent(Time{}, 1'000'000);
  }
  CHECK(pacer.permits(Time{}));
}

TEST_CASE("requests of any service leave at the rate of their queue") {
  const auto type = GENERATE(nic::QpType::rc, nic::QpType::uc);
  Pair pair;
  const Connection qps = pair.connect({.type = type}, {.type = type});
  REQUIRE(pair.a.nic.limit_rate(*qps.a, {.kbps = kbps_of_100_mbps}));
  pair.clear_log();
  post_writes(pair, Side::a, *qps.a);
  pair.run_until_idle();
  CHECK(pair.a.completions().size() == 16);
  const Duration took = pair.log().back().sent - pair.log().front().sent;
  CHECK(took > 1050us);  // 1.4 ms less the slack and the last packet, behind which nothing waits.
  CHECK(took < 1450us);
  CHECK(pair.a.count(Counter::retransmitted_pkts) == 0);
}

TEST_CASE("answers and other queues are not held back, and a limit can be lifted") {
  Pair pair;
  const Connection slow = pair.connect();
  const Connection fast = pair.connect();
  REQUIRE(pair.a.nic.limit_rate(*slow.a, {.kbps = 1}));
  post_writes(pair, Side::b, *slow.b);
  post_writes(pair, Side::a, *fast.a);
  post_writes(pair, Side::a, *slow.a);
  const Time start = pair.now();
  pair.advance(100us);
  CHECK(pair.b.completions().size() == 16);
  CHECK(pair.a.completions().size() == 17);  // A slow one goes at once; the next takes 8.8 s.
  REQUIRE(pair.a.nic.limit_rate(*slow.a, {}));
  pair.advance(100us);
  CHECK(pair.a.completions().size() == 15);
  CHECK(pair.now() == start + 200us);
}

TEST_CASE("a limit needs a queue pair that sends, and a rate that the device has") {
  Pair pair;
  nic::Qp& idle = create_qp(pair.a, {});
  CHECK(pair.a.nic.limit_rate(idle, {.kbps = 1}).error() == NicError::invalid_argument);
  const Connection qps = pair.connect();
  const std::uint32_t most = pair.a.nic.profile().rate_limit_kbps_max;
  CHECK(pair.a.nic.limit_rate(*qps.a, {.kbps = most}));
  CHECK(pair.a.nic.limit_rate(*qps.a, {.kbps = most + 1}).error() == NicError::invalid_argument);
}

}  // namespace verbena::test
