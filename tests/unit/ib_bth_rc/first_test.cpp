// One message of each kind, from post to completion: what goes over the wire and what both ends
// are told.
#include <catch2/catch.hpp>

#include "tests/support/pair.h"

namespace verbena::test {

TEST_CASE("a SEND is received and acknowledged") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post_recv(Side::b, *qps.b, 7, {{0, 4096}});
  pair.post(Side::a, *qps.a, pair.a.send(1, {0, 2500}));
  pair.run_until_idle();
  CHECK(pair.wire() == Lines{"> send_first 100 +1024", "> send_middle 101 +1024",
                             "> send_last 102 +452 A", "< acknowledge 102 ack msn 1"});
  CHECK(pair.a.completions() == Lines{"1 send success"});
  CHECK(pair.b.completions() == Lines{"7 recv success +2500"});
  CHECK(std::ranges::equal(pair.a.bytes(0, 2500), pair.b.bytes(0, 2500)));
}

TEST_CASE("a WRITE lands at its address and nowhere else") {
  Pair pair;
  const Connection qps = pair.connect();
  const std::vector<std::byte> before(pair.b.bytes().begin(), pair.b.bytes().end());
  pair.post(Side::a, *qps.a, pair.a.write(1, {16, 3001}, pair.b, 8));
  pair.run_until_idle();
  CHECK(pair.wire() == Lines{"> write_first 100 +1024", "> write_middle 101 +1024",
                             "> write_last 102 +953 A", "< acknowledge 102 ack msn 1"});
  CHECK(pair.a.completions() == Lines{"1 write success"});
  CHECK(pair.b.completions().empty());
  CHECK(std::ranges::equal(pair.a.bytes(16, 3001), pair.b.bytes(8, 3001)));
  CHECK(std::ranges::equal(pair.b.bytes(0, 8), ByteView(before).first(8)));
  CHECK(std::ranges::equal(pair.b.bytes().subspan(3009), ByteView(before).subspan(3009)));
}

TEST_CASE("a READ brings the peer's bytes") {
  Pair pair;
  const Connection qps = pair.connect();
  pair.post(Side::a, *qps.a, pair.a.read(1, {16, 3001}, pair.b, 8));
  pair.run_until_idle();
  CHECK(pair.wire() ==
        Lines{"> read_request 100 len 3001", "< read_response_first 100 +1024 ack msn 1",
              "< read_response_middle 101 +1024", "< read_response_last 102 +953 ack msn 1"});
  CHECK(pair.a.completions() == Lines{"1 read success"});
  CHECK(std::ranges::equal(pair.a.bytes(16, 3001), pair.b.bytes(8, 3001)));
}

}  // namespace verbena::test
