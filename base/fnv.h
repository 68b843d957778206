// FNV-1a, 64 bits: a hash for names and for what is kept apart by its text. Not for what somebody
// could choose to collide.
#pragma once

#include <cstdint>
#include <string_view>

namespace verbena {

class Fnv1a {
 public:
  constexpr void add(std::string_view text) {
    for (const char c : text) {
      value_ = (value_ ^ static_cast<unsigned char>(c)) * prime;
    }
  }
  [[nodiscard]] constexpr std::uint64_t value() const { return value_; }

 private:
  static constexpr std::uint64_t prime = 0x0000'0100'0000'01B3;
  std::uint64_t value_ = 0xCBF2'9CE4'8422'2325;
};

[[nodiscard]] constexpr std::uint64_t fnv1a(std::string_view text) {
  Fnv1a hash;
  hash.add(text);
  return hash.value();
}

// The authors' own test vectors.
static_assert(fnv1a("") == 0xCBF2'9CE4'8422'2325 && fnv1a("a") == 0xAF63'DC4C'8601'EC8C &&
              fnv1a("foobar") == 0x8594'4171'F739'67E8);

}  // namespace verbena
