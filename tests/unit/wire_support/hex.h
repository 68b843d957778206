// Bytes as hexadecimal text and back, for vectors in tests; and bytes drawn from a seed.
#pragma once

#include <catch2/catch.hpp>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/prng.h"

namespace verbena::test {

using Bytes = std::vector<std::byte>;

/// "01 ab" or "01ab". Anything but spaces and pairs of digits fails the test.
inline Bytes from_hex(std::string_view text) {
  Bytes bytes;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == ' ') {
      ++i;
      continue;
    }
    unsigned value = 0;
    const std::string_view pair = text.substr(i, 2);
    const auto [end, error] = std::from_chars(pair.data(), pair.data() + pair.size(), value, 16);
    REQUIRE((error == std::errc{} && end == pair.data() + 2));
    bytes.push_back(static_cast<std::byte>(value));
    i += 2;
  }
  return bytes;
}

inline std::string to_hex(ByteView bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += digits[std::to_integer<unsigned>(byte) >> 4];
    text += digits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

inline Bytes random_bytes(Prng& prng, std::size_t count) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(prng.next());
  }
  return bytes;
}

}  // namespace verbena::test
