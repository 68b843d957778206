// The generator gives the same numbers everywhere: reference values and the edges of the draws.
#include "base/prng.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>

namespace verbena {
namespace {

TEST_CASE("a seed gives the numbers of xoshiro256** filled by SplitMix64", "[prng]") {
  // From a separate implementation of the authors' C code (prng.di.unimi.it) in Python, which gives
  // 11520, 0, 1509978240, 1215971899390074240 for the state 1, 2, 3, 4, as theirs does.
  struct Reference {
    std::uint64_t seed;
    std::array<std::uint64_t, 5> first;
    std::uint64_t thousandth;
  };
  constexpr std::array references = {
      Reference{0,
                {0x99EC'5F36'CB75'F2B4, 0xBF6E'1F78'4956'452A, 0x1A5F'849D'4933'E6E0,
                 0x6AA5'94F1'262D'2D2C, 0xBBA5'AD4A'1F84'2E59},
                0x7AAC'8C48'3A2E'DD2F},
      Reference{42,
                {0x1578'0B2E'0C2E'C716, 0x6104'D986'6D11'3A7E, 0xAE17'5332'39E4'99A1,
                 0xECB8'AD47'03B3'60A1, 0xFDE6'DC7F'E2EC'5E64},
                0x8DE5'848C'61AB'8968},
      Reference{0xFFFF'FFFF'FFFF'FFFF,
                {0x8F55'20D5'2A7E'AD08, 0xC476'A018'CAA1'802D, 0x81DE'31C0'D260'469E,
                 0xBF65'8D7E'065F'3C2F, 0x9135'93FD'A1BC'A32A},
                0xC3C9'3EA5'CDE4'34CC}};
  for (const auto& reference : references) {
    Prng prng(reference.seed);
    for (const std::uint64_t expected : reference.first) {
      REQUIRE(prng.next() == expected);
    }
    for (std::size_t i = reference.first.size(); i < 999; ++i) {
      static_cast<void>(prng.next());
    }
    REQUIRE(prng.next() == reference.thousandth);
  }
}

TEST_CASE("a bounded draw stays below its bound and reaches every value", "[prng]") {
  Prng prng(3);
  std::array<int, 7> seen{};
  for (int i = 0; i < 7000; ++i) {
    const std::uint64_t drawn = prng.below(seen.size());
    REQUIRE(drawn < seen.size());
    ++seen[drawn];
  }
  for (const int count : seen) {
    // 1000 expected, standard deviation 29: the seed is fixed, so this can't fail by chance.
    REQUIRE(count > 850);
    REQUIRE(count < 1150);
  }
}

TEST_CASE("a draw below one is always zero", "[prng]") {
  Prng prng(4);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(prng.below(1) == 0);
  }
}

TEST_CASE("a chance of nothing never comes, a chance of one always", "[prng]") {
  Prng prng(5);
  int hits = 0;
  for (int i = 0; i < 1000; ++i) {
    REQUIRE_FALSE(prng.chance({0, 10}));
    REQUIRE(prng.chance({10, 10}));
    hits += prng.chance({1, 4}) ? 1 : 0;
  }
  REQUIRE(hits > 200);
  REQUIRE(hits < 300);
}

TEST_CASE("the generator works at compile time", "[prng]") {
  constexpr auto first = [] { return Prng(0).next(); }();
  STATIC_REQUIRE(first == 0x99EC'5F36'CB75'F2B4);
}

}  // namespace
}  // namespace verbena
