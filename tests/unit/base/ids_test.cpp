// Serial numbers of 24 bits and the strong types of the transport.
#include <catch2/catch.hpp>

#include "base/ids.h"

namespace verbena {
namespace {

TEST_CASE("a serial number keeps 24 bits and wraps around", "[ids]") {
  REQUIRE(Psn(0x1234'5678).value() == 0x34'5678);
  REQUIRE(Psn(0xFF'FFFF).next() == Psn(0));
  REQUIRE(Psn(2) + -3 == Psn(0xFF'FFFF));
  REQUIRE(Psn(0xFF'FFFE) + 5 == Psn(3));
}

TEST_CASE("order between serial numbers is by distance, across the wrap too", "[ids]") {
  REQUIRE(Psn(0xFF'FFFF).is_before(Psn(0)));
  REQUIRE(Psn(0).is_after(Psn(0xFF'FFFF)));
  REQUIRE_FALSE(Psn(7).is_before(Psn(7)));
  REQUIRE_FALSE(Psn(7).is_after(Psn(7)));
  // The window is half of the space: what is 2^23 away counts as before, from both sides.
  REQUIRE(Psn(0x7F'FFFF).is_after(Psn(0)));
  REQUIRE(Psn(0x80'0000).is_before(Psn(0)));
  REQUIRE(Psn(0).is_before(Psn(0x80'0000)));
}

TEST_CASE("the distance of two serial numbers undoes an addition", "[ids]") {
  for (const std::int32_t distance : {-0x80'0000, -4097, -1, 0, 1, 255, 0x7F'FFFF}) {
    for (const std::uint32_t from : {0U, 1U, 0x7F'FFFFU, 0x80'0000U, 0xFF'FFFFU}) {
      REQUIRE((Psn(from) + distance) - Psn(from) == distance);
    }
  }
}

TEST_CASE("an address moves by bytes and wraps like the wire's 64 bits", "[ids]") {
  REQUIRE(Va{0x1000} + 0x234 == Va{0x1234});
  REQUIRE(Va{0xFFFF'FFFF'FFFF'FFFF} + 1 == Va{0});
}

}  // namespace
}  // namespace verbena
