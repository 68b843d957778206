// The tables behind the AETH: syndromes, RNR timers, credits, ACK timeouts.
#include "proto/ib_bth/aeth.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <string_view>

namespace verbena::ib {

using namespace std::chrono_literals;

// IBTA vol 1, table 44: the top three bits, whatever the others.
TEST_CASE("a syndrome's kind is in its top three bits") {
  for (unsigned byte = 0; byte < 256; ++byte) {
    INFO(byte);
    const Syndrome syndrome = Syndrome::from_byte(static_cast<std::uint8_t>(byte));
    constexpr AethKind by_top_bits[] = {AethKind::ack,      AethKind::rnr_nak,  AethKind::reserved,
                                        AethKind::nak,      AethKind::reserved, AethKind::reserved,
                                        AethKind::reserved, AethKind::reserved};
    CHECK(syndrome.kind() == by_top_bits[byte / 32]);
    CHECK(syndrome.code() == byte % 32);
    CHECK(syndrome.to_byte() == byte);
  }
}

TEST_CASE("syndromes are made with the bytes that the wire has") {
  CHECK(Syndrome::ack().to_byte() == 0x1F);
  CHECK(Syndrome::ack(4).to_byte() == 0x04);
  CHECK(Syndrome::rnr_nak(0).to_byte() == 0x20);
  CHECK(Syndrome::rnr_nak(31).to_byte() == 0x3F);
  CHECK(Syndrome::nak(NakCode::psn_sequence_error).to_byte() == 0x60);
  CHECK(Syndrome::nak(NakCode::invalid_request).to_byte() == 0x61);
  CHECK(Syndrome::nak(NakCode::remote_access_error).to_byte() == 0x62);
  CHECK(Syndrome::nak(NakCode::remote_operational_error).to_byte() == 0x63);
  CHECK(Syndrome::nak(NakCode::invalid_rd_request).to_byte() == 0x64);
  CHECK(Syndrome::nak(NakCode::remote_access_error).nak_code() == NakCode::remote_access_error);
}

TEST_CASE("NAK codes have names, reserved ones say so") {
  CHECK(nak_code_name(NakCode::psn_sequence_error) == "PSN sequence error");
  CHECK(nak_code_name(NakCode::invalid_request) == "invalid request");
  CHECK(nak_code_name(NakCode::remote_access_error) == "remote access error");
  CHECK(nak_code_name(NakCode::remote_operational_error) == "remote operational error");
  CHECK(nak_code_name(NakCode::invalid_rd_request) == "invalid RD request");
  CHECK(nak_code_name(NakCode{5}) == "reserved NAK code");
  CHECK(nak_code_name(NakCode{31}) == "reserved NAK code");
}

// IBTA vol 1, table 46, in microseconds; equal to `tshark -G values
// infiniband.aeth.syndrome.timer`. Two traps: code 0 is the longest time, and code 25 is 61440 µs
// (a kernel has 61410).
TEST_CASE("RNR timer codes stand for the times of the specification") {
  constexpr std::int64_t microseconds[32] = {
      655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
      480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
      20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};
  for (std::uint8_t code = 0; code < 32; ++code) {
    INFO(int{code});
    CHECK(rnr_timer(code) == std::chrono::microseconds(microseconds[code]));
    CHECK(rnr_timer_nearest(rnr_timer(code)) == code);
  }
  CHECK(rnr_timer(32) == rnr_timer(0));
}

TEST_CASE("the nearest RNR timer code is found for any time") {
  CHECK(rnr_timer_nearest(0us) == 1);
  CHECK(rnr_timer_nearest(14us) == 1);
  CHECK(rnr_timer_nearest(15us) == 1);
  CHECK(rnr_timer_nearest(16us) == 2);
  CHECK(rnr_timer_nearest(590ms) == 0);
  CHECK(rnr_timer_nearest(1h) == 0);
}

// IBTA vol 1, table 47.
TEST_CASE("credit codes never promise more than is posted") {
  CHECK(credit_code(0) == 0);
  CHECK(credit_code(4) == 4);
  CHECK(credit_code(5) == 4);
  CHECK(credit_code(6) == 5);
  CHECK(credit_code(32'767) == 29);
  CHECK(credit_code(32'768) == 30);
  CHECK(credit_code(0xFFFF'FFFF) == 30);
  CHECK(credits[29] == 24'576);
}

// IBTA vol 1, 9.9.2.1.1: 4.096 µs · 2^t, 0 is never.
TEST_CASE("ACK timeout codes stand for powers of two of 4.096 microseconds") {
  CHECK(!ack_timeout(0));
  CHECK(ack_timeout(1) == 8'192ns);
  CHECK(ack_timeout(8) == 1'048'576ns);
  CHECK(ack_timeout(14) == 67'108'864ns);
  CHECK(ack_timeout(20) == 4'294'967'296ns);
  CHECK(ack_timeout(31) == 8'796'093'022'208ns);
  CHECK(!ack_timeout(32));
}

}  // namespace verbena::ib
