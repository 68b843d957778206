#include "faults/units.h"

#include <fmt/format.h>

#include <array>
#include <limits>

namespace verbena::faults {
namespace {

/// A decimal number as an integer and the power of ten that divides it.
struct Decimal {
  std::uint64_t digits = 0;
  std::uint64_t denominator = 1;
};

/// Keeps products with any unit's factor below 2^64.
constexpr std::uint64_t denominator_max = 1'000'000'000;

std::optional<std::uint64_t> multiply(std::uint64_t a, std::uint64_t b) {
  if (b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b) {
    return std::nullopt;
  }
  return a * b;
}

/// Reads digits with at most one point off the front of `text`.
std::optional<Decimal> take_decimal(std::string_view& text) {
  Decimal decimal;
  bool any = false;
  bool behind_point = false;
  while (!text.empty()) {
    const char c = text.front();
    if (c == '.' && !behind_point) {
      behind_point = true;
    } else if (c >= '0' && c <= '9') {
      const auto shifted = multiply(decimal.digits, 10);
      if (!shifted || *shifted > std::numeric_limits<std::uint64_t>::max() - 9) {
        return std::nullopt;
      }
      decimal.digits = *shifted + static_cast<std::uint64_t>(c - '0');
      any = true;
      if (behind_point) {
        if (decimal.denominator >= denominator_max) {
          return std::nullopt;
        }
        decimal.denominator *= 10;
      }
    } else {
      break;
    }
    text.remove_prefix(1);
  }
  return any ? std::optional(decimal) : std::nullopt;
}

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

/// A decimal with a unit as a whole number of the smallest unit; nothing may be left over.
template <std::size_t count>
std::optional<std::uint64_t> parse_with_unit(std::string_view text,
                                             const std::array<Unit, count>& units) {
  const auto decimal = take_decimal(text);
  if (!decimal) {
    return std::nullopt;
  }
  if (decimal->digits == 0 && text.empty()) {
    return 0;
  }
  for (const Unit& unit : units) {
    if (unit.name == text) {
      const auto product = multiply(decimal->digits, unit.factor);
      if (!product || *product % decimal->denominator != 0) {
        return std::nullopt;
      }
      return *product / decimal->denominator;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> parse_number(std::string_view text) {
  unsigned base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  }
  std::uint64_t value = 0;
  bool any = false;
  for (const char c : text) {
    if ((c == '\'' || c == '_') && any) {
      continue;
    }
    unsigned digit = base;
    if (c >= '0' && c <= '9') {
      digit = static_cast<unsigned>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<unsigned>(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<unsigned>(c - 'A') + 10;
    }
    if (digit >= base || value > (std::numeric_limits<std::uint64_t>::max() - digit) / base) {
      return std::nullopt;
    }
    value = value * base + digit;
    any = true;
  }
  return any ? std::optional(value) : std::nullopt;
}

std::optional<Duration> parse_duration(std::string_view text) {
  constexpr std::array units{Unit{"ns", 1}, Unit{"us", 1'000}, Unit{"ms", 1'000'000},
                             Unit{"s", 1'000'000'000}};
  constexpr std::uint64_t ns_max = std::uint64_t{1} << 62;
  const auto ns = parse_with_unit(text, units);
  if (!ns || *ns > ns_max) {
    return std::nullopt;
  }
  return Duration(static_cast<std::int64_t>(*ns));
}

std::optional<Ratio> parse_ratio(std::string_view text) {
  const auto numerator = take_decimal(text);
  if (!numerator) {
    return std::nullopt;
  }
  Ratio ratio{numerator->digits, numerator->denominator};
  if (text == "%") {
    ratio.denominator *= 100;
  } else if (text.starts_with('/')) {
    const auto denominator = parse_number(text.substr(1));
    const auto product = denominator ? multiply(*denominator, ratio.denominator) : std::nullopt;
    if (!product || *product == 0) {
      return std::nullopt;
    }
    ratio.denominator = *product;
  } else if (!text.empty()) {
    return std::nullopt;
  }
  return ratio.numerator <= ratio.denominator ? std::optional(ratio) : std::nullopt;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  constexpr std::array units{Unit{"", 1}, Unit{"B", 1}, Unit{"KiB", 1U << 10},
                             Unit{"MiB", 1U << 20}, Unit{"GiB", 1U << 30}};
  return parse_with_unit(text, units);
}

std::optional<std::uint64_t> parse_rate(std::string_view text) {
  constexpr std::array units{Unit{"b/s", 1}, Unit{"kb/s", 1'000}, Unit{"Mb/s", 1'000'000},
                             Unit{"Gb/s", 1'000'000'000}};
  return parse_with_unit(text, units);
}

std::string duration_text(Duration duration) {
  constexpr std::array units{Unit{"s", 1'000'000'000}, Unit{"ms", 1'000'000}, Unit{"us", 1'000}};
  const std::int64_t ns = duration.count();
  const std::uint64_t size =
      ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  const char* const sign = ns < 0 ? "-" : "";
  for (const Unit& unit : units) {
    if (size >= unit.factor) {
      std::string fraction =
          fmt::format("{:0{}}", size % unit.factor, fmt::formatted_size("{}", unit.factor) - 1);
      fraction.erase(fraction.find_last_not_of('0') + 1);
      return fmt::format("{}{}{}{}{}", sign, size / unit.factor, fraction.empty() ? "" : ".",
                         fraction, unit.name);
    }
  }
  return size == 0 ? "0s" : fmt::format("{}{}ns", sign, size);
}

}  // namespace verbena::faults
