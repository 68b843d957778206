// The UDP source port, against values of rdma-core's ibv_flow_label_to_udp_sport() and
// rdma_calc_flow_label().
#include "proto/roce/sport.h"

#include <catch2/catch.hpp>

#include "base/prng.h"

namespace verbena::roce {

TEST_CASE("a flow label folds into a dynamic UDP port") {
  CHECK(udp_source_port(0) == 0xC000);
  CHECK(udp_source_port(1) == 0xC001);
  CHECK(udp_source_port(0x3FFF) == 0xFFFF);
  CHECK(udp_source_port(0x4000) == 0xC001);
  CHECK(udp_source_port(0xF'FFFF) == 0xFFC0);
  CHECK(udp_source_port(0x1'FACE) == 0xFAC9);
  CHECK(udp_source_port(0x1'2345) == 0xE341);
}

TEST_CASE("a pair of QPNs gives a flow label and a port") {
  CHECK(flow_label_from_qpns(Qpn{0x11}, Qpn{0x12}) == 0x132);
  CHECK(udp_source_port(Qpn{0x11}, Qpn{0x12}) == 0xC132);
  CHECK(udp_source_port(Qpn{1}, Qpn{1}) == 0xC001);
  CHECK(flow_label_from_qpns(Qpn{0xFF'FFFF}, Qpn{0xFF'FFFF}) == 0xF'FF1E);
  CHECK(udp_source_port(Qpn{0xFF'FFFF}, Qpn{0xFF'FFFF}) == 0xFF21);
  CHECK(flow_label_from_qpns(Qpn{0x10A}, Qpn{0x109}) == 0x1'135A);
  CHECK(udp_source_port(Qpn{0x10A}, Qpn{0x109}) == 0xD35E);
  CHECK(flow_label_from_qpns(Qpn{0x211}, Qpn{0x212}) == 0x4'4732);
  CHECK(udp_source_port(Qpn{0x211}, Qpn{0x212}) == 0xC723);
}

TEST_CASE("both ends of a connection compute the same port") {
  Prng prng(9);
  for (int round = 0; round < 1000; ++round) {
    const auto a = Qpn(static_cast<std::uint32_t>(prng.below(0x100'0000)));
    const auto b = Qpn(static_cast<std::uint32_t>(prng.below(0x100'0000)));
    REQUIRE(udp_source_port(a, b) == udp_source_port(b, a));
    REQUIRE(udp_source_port(a, b) >= udp_source_port_min);
  }
}

}  // namespace verbena::roce
