// Checks a setter and a getter against a field's place in the figure of the specification.
#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/prng.h"
#include "tests/unit/wire_support/hex.h"

namespace verbena::test {

/// Bits `first` to `first + width - 1` of `bytes`, bit 0 being the most significant of byte 0.
inline std::uint64_t bits_of(ByteView bytes, std::size_t first, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t bit = first; bit < first + width; ++bit) {
    value = value << 1 | (std::to_integer<unsigned>(bytes[bit / 8]) >> (7 - bit % 8) & 1U);
  }
  return value;
}

/// For headers of all zeros, all ones and random bits, and values 0, maximum and random: `set`
/// writes exactly the bits [first, first + width) and no other, and `get` reads them.
template <class Header, class Set, class Get>
void check_field(std::size_t first, std::size_t width, Set set, Get get) {
  constexpr int rounds = 40;
  const std::uint64_t value_max = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  Prng prng(first * 64 + width);
  for (int round = 0; round < rounds; ++round) {
    Bytes before = random_bytes(prng, sizeof(Header));
    if (round < 4) {
      before.assign(sizeof(Header), round < 2 ? std::byte{0} : std::byte{0xFF});
    }
    const std::uint64_t values[] = {0, value_max, prng.next() & value_max};
    for (const std::uint64_t value : values) {
      auto header = read_struct<Header>(before);
      set(header, value);
      Bytes after(sizeof(Header));
      write_struct(after, header);
      INFO(to_hex(before) << " -> " << to_hex(after) << ", value " << value);
      REQUIRE(bits_of(after, first, width) == value);
      REQUIRE(get(header) == value);
      for (std::size_t bit = 0; bit < sizeof(Header) * 8; ++bit) {
        const bool is_ours = bit >= first && bit < first + width;
        REQUIRE((is_ours || bits_of(before, bit, 1) == bits_of(after, bit, 1)));
      }
    }
  }
}

}  // namespace verbena::test
