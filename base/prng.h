// A seeded pseudo-random generator: xoshiro256** (Blackman and Vigna, 2018), state filled by
// SplitMix64. The same seed gives the same numbers with every compiler; no floating point.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/check.h"

namespace verbena {

/// A probability as a fraction, so that no rounding differs between machines.
struct Ratio {
  std::uint64_t numerator = 0;
  std::uint64_t denominator = 1;
};

class Prng {
 public:
  explicit constexpr Prng(std::uint64_t seed) {
    for (auto& word : state_) {
      seed += 0x9E37'79B9'7F4A'7C15;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9;
      z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EB;
      word = z ^ (z >> 31);
    }
  }

  /// 64 uniform bits.
  constexpr std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, bound), by rejection: no modulo bias. bound > 0.
  constexpr std::uint64_t below(std::uint64_t bound) {
    VERBENA_CHECK(bound > 0);
    const std::uint64_t threshold = (0 - bound) % bound;
    for (;;) {
      const std::uint64_t r = next();
      if (r >= threshold) {
        return r % bound;
      }
    }
  }

  /// True with the given probability.
  constexpr bool chance(Ratio p) { return below(p.denominator) < p.numerator; }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace verbena
