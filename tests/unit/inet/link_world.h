// Hosts on one link in virtual time: what one sends, all others get, and it is kept.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "proto/inet/link_host.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::inet::test {

using verbena::test::Bytes;
using verbena::test::from_hex;
using verbena::test::to_hex;

/// Keeps the frames that were sent.
class FrameLog final : public EthernetSink {
 public:
  MutableBytes reserve(std::size_t bytes) override {
    if (is_full) {
      return {};
    }
    next_.assign(bytes, std::byte{0xEE});
    return next_;
  }
  void commit() override { frames.push_back(next_); }

  std::deque<Bytes> frames;
  bool is_full = false;

 private:
  Bytes next_;
};

inline MacAddress mac_of_number(std::uint8_t number) { return {{0x02, 0, 0, 0, 0, number}}; }
inline Ipv6Address ip(const char* text) { return LinkAddress::from_text(text)->address; }

/// A host with 10.7.0.N/24 and fd00::N/64.
inline LinkHost make_host(std::uint8_t number) {
  const std::string n = std::to_string(number);
  return {mac_of_number(number),
          {*LinkAddress::from_text("10.7.0." + n), *LinkAddress::from_text("fd00::" + n)}};
}

/// Two hosts, 1 and 2, and a cable that can be out.
struct LinkWorld {
  LinkHost a = make_host(1);
  LinkHost b = make_host(2);
  FrameLog from_a;
  FrameLog from_b;
  Time now{};
  bool is_out = false;
  std::vector<Bytes> seen;

  void advance(Duration time) { now += time; }

  /// Lets them talk until nobody has anything to say now.
  void run() {
    for (bool busy = true; busy;) {
      a.transmit(now, from_a);
      b.transmit(now, from_b);
      busy = carry(from_a, b, from_b) || carry(from_b, a, from_a);
    }
  }

 private:
  bool carry(FrameLog& from, LinkHost& to, FrameLog& answers) {
    const bool busy = !from.frames.empty();
    for (; !from.frames.empty(); from.frames.pop_front()) {
      seen.push_back(from.frames.front());
      if (!is_out) {
        to.on_frame(from.frames.front(), now, answers);
      }
    }
    return busy;
  }
};

}  // namespace verbena::inet::test
