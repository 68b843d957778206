// Numbers with units as people write them: durations, probabilities, sizes and rates. No floating
// point: "1.5us" is 1500 ns on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/prng.h"
#include "base/time.h"

namespace verbena::faults {

/// Decimal, or hexadecimal after 0x; digits may be grouped with ' or _.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

/// A decimal number and one of ns, us, ms, s; "0" needs no unit. At most 2^62 ns.
[[nodiscard]] std::optional<Duration> parse_duration(std::string_view text);

/// "1%", "0.05%", "1/1000" or a fraction "0.001". At most 1.
[[nodiscard]] std::optional<Ratio> parse_ratio(std::string_view text);

/// Bytes: a number, and B, KiB, MiB or GiB behind it, or nothing.
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text);

/// Bits per second: a decimal number and one of b/s, kb/s, Mb/s, Gb/s.
[[nodiscard]] std::optional<std::uint64_t> parse_rate(std::string_view text);

/// The duration with the largest unit that divides it well: "4.096us", "655.36ms", "0s".
[[nodiscard]] std::string duration_text(Duration duration);

}  // namespace verbena::faults
