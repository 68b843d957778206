// Messages around every multiple of every path MTU (users.md rows 21 to 23), whole and with each
// packet lost once.
#include <algorithm>
#include <catch2/catch.hpp>

#include "proto/ib_bth/rc_requester.h"
#include "tests/support/pair.h"

namespace verbena::test {

namespace {

constexpr nic::Mtu mtus[] = {nic::Mtu::mtu_256, nic::Mtu::mtu_512, nic::Mtu::mtu_1024,
                             nic::Mtu::mtu_2048, nic::Mtu::mtu_4096};

enum class Kind { send, write, read };
constexpr Kind kinds[] = {Kind::send, Kind::write, Kind::read};

const char* name_of(Kind kind) {
  return kind == Kind::send ? "send" : kind == Kind::write ? "write" : "read";
}

/// Posts one message of `bytes` from offset 0 to offset 0 (a READ: the other way).
void post(Pair& pair, const Connection& qps, Kind kind, std::uint32_t bytes) {
  switch (kind) {
    case Kind::send:
      pair.post_recv(Side::b, *qps.b, 7, {{0, bytes}});
      return pair.post(Side::a, *qps.a, pair.a.send(1, {0, bytes}));
    case Kind::write:
      return pair.post(Side::a, *qps.a, pair.a.write(1, {0, bytes}, pair.b, 0));
    case Kind::read:
      return pair.post(Side::a, *qps.a, pair.a.read(1, {0, bytes}, pair.b, 0));
  }
}

/// The packets that carry the message: FIRST, MIDDLE*, LAST or ONLY, all full but the last.
Lines expected_data_packets(Kind kind, std::uint32_t bytes, std::uint32_t mtu) {
  const std::string prefix = kind == Kind::read ? "read_response" : name_of(kind);
  const std::uint32_t count = std::max(1U, (bytes + mtu - 1) / mtu);
  Lines lines;
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    const char* const position = count == 1 ? "only" : i == 0 ? "first" : last ? "last" : "middle";
    std::string line = prefix + "_" + position + " " + std::to_string(100 + i) + " +" +
                       std::to_string(last ? bytes - i * mtu : mtu);
    if (kind == Kind::read && (i == 0 || last)) {
      line += " ack msn 1";
    }
    if (kind != Kind::read && (last || (i + 1) % ib::ack_request_interval == 0)) {
      line += " A";
    }
    lines.push_back(line);
  }
  return lines;
}

PairOptions with_memory(std::size_t bytes) {
  PairOptions options;
  options.a.memory_bytes = options.b.memory_bytes = bytes;
  return options;
}

}  // namespace

TEST_CASE("a message is cut at the path MTU") {
  for (const nic::Mtu mtu_code : mtus) {
    const std::uint32_t mtu = nic::mtu_bytes(mtu_code);
    for (const Kind kind : kinds) {
      for (const std::uint32_t bytes : {0U, 1U, mtu - 1, mtu, mtu + 1, 2 * mtu, 2 * mtu + 3}) {
        INFO(name_of(kind) << " of " << bytes << " at MTU " << mtu);
        Pair pair;
        const Connection qps = pair.connect({.mtu = mtu_code}, {.mtu = mtu_code});
        post(pair, qps, kind, bytes);
        pair.run_until_idle();
        const Side carrier = kind == Kind::read ? Side::b : Side::a;
        REQUIRE(pair.wire(carrier) == expected_data_packets(kind, bytes, mtu));
        REQUIRE(pair.a.completions() == Lines{"1 " + std::string(name_of(kind)) + " success"});
        REQUIRE(std::ranges::equal(pair.a.bytes(0, bytes), pair.b.bytes(0, bytes)));
      }
    }
  }
}

TEST_CASE("ten mebibytes arrive at every path MTU") {
  constexpr std::uint32_t bytes = 10U << 20;
  for (const nic::Mtu mtu : mtus) {
    for (const Kind kind : kinds) {
      if (kind != Kind::write && mtu != nic::Mtu::mtu_1024) {
        continue;  // The cut is the same for all; one of each kind is enough of that length.
      }
      INFO(name_of(kind) << " at MTU " << nic::mtu_bytes(mtu));
      PairOptions options = with_memory(bytes);
      options.keep_log = false;
      Pair pair(options);
      const Connection qps = pair.connect({.mtu = mtu}, {.mtu = mtu});
      post(pair, qps, kind, bytes);
      pair.run_until_idle();
      REQUIRE(pair.a.completions() == Lines{"1 " + std::string(name_of(kind)) + " success"});
      REQUIRE(std::ranges::equal(pair.a.bytes(), pair.b.bytes()));
      REQUIRE(pair.a.count(Counter::retransmitted_pkts) == 0);
    }
  }
}

TEST_CASE("a message survives the loss of any one of its packets") {
  // users.md row 22.
  constexpr std::uint32_t mtu = 1024;
  constexpr std::uint32_t bytes = 8 * mtu + 100;
  for (const Kind kind : kinds) {
    for (const Side lossy : {Side::a, Side::b}) {
      Pair clean;
      post(clean, clean.connect(), kind, bytes);
      clean.run_until_idle();
      const std::size_t packets = clean.wire(lossy).size();
      for (std::size_t lost = 0; lost < packets; ++lost) {
        INFO(name_of(kind) << ", packet " << lost << " of side " << static_cast<int>(lossy));
        Pair pair;
        const Connection qps = pair.connect();
        pair.drop(lossy, nth(lost));
        post(pair, qps, kind, bytes);
        pair.run_until_idle();
        REQUIRE(pair.a.completions() == Lines{"1 " + std::string(name_of(kind)) + " success"});
        REQUIRE(std::ranges::equal(pair.a.bytes(0, bytes), pair.b.bytes(0, bytes)));
        if (kind == Kind::send) {
          REQUIRE(pair.b.completions() == Lines{"7 recv success +8292"});
        }
      }
    }
  }
}

TEST_CASE("PSNs wrap at 24 bits in the middle of a message") {
  for (const Kind kind : kinds) {
    INFO(name_of(kind));
    Pair pair;
    const EndOptions end{.sq_psn = Psn(0xFF'FFFE)};
    const Connection qps = pair.connect(end);
    pair.drop(Side::a, has_psn(0xFF'FFFF));
    pair.drop(Side::b, has_psn(0));
    post(pair, qps, kind, 5000);
    pair.run_until_idle();
    REQUIRE(pair.a.completions() == Lines{"1 " + std::string(name_of(kind)) + " success"});
    REQUIRE(std::ranges::equal(pair.a.bytes(0, 5000), pair.b.bytes(0, 5000)));
    REQUIRE(pair.a.nic.query_qp(*qps.a).sq_psn == Psn(3));
  }
}

}  // namespace verbena::test
