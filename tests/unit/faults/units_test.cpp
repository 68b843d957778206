// Numbers with units: what people write becomes exact integers, and nonsense is refused.
#include "faults/units.h"

#include <catch2/catch.hpp>

using namespace verbena;
using namespace verbena::faults;

TEST_CASE("durations are exact nanoseconds") {
  CHECK(parse_duration("50us") == Duration(50'000));
  CHECK(parse_duration("1.5ms") == Duration(1'500'000));
  CHECK(parse_duration("4.096us") == Duration(4'096));
  CHECK(parse_duration("0") == Duration(0));
  CHECK(parse_duration("2s") == Duration(2'000'000'000));
}

TEST_CASE("what isn't a duration is refused") {
  for (const char* text : {"", "us", "5", "1.5", "5 us", "-5us", "1.2.3us", "0.5ns", "5min",
                           "99999999999999999999s", "0.00000000001s"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_duration(text));
  }
}

TEST_CASE("ratios are percent, fractions or decimals, at most one") {
  const auto same = [](std::string_view text, std::uint64_t n, std::uint64_t d) {
    const auto ratio = parse_ratio(text);
    return ratio && ratio->numerator * d == n * ratio->denominator;
  };
  CHECK(same("1%", 1, 100));
  CHECK(same("0.05%", 1, 2000));
  CHECK(same("1/3", 1, 3));
  CHECK(same("0.125", 1, 8));
  CHECK(same("100%", 1, 1));
  for (const char* text : {"", "%", "101%", "1/0", "2", "3/2", "1/", "x"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_ratio(text));
  }
}

TEST_CASE("numbers are decimal or hexadecimal and don't overflow") {
  CHECK(parse_number("1'000") == 1'000);
  CHECK(parse_number("0xFF_FF") == 0xFFFF);
  CHECK(parse_number("18446744073709551615") == 18446744073709551615U);
  for (const char* text : {"", "0x", "18446744073709551616", "-1", "1a", "'1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_number(text));
  }
}

TEST_CASE("sizes and rates take their units") {
  CHECK(parse_size("64KiB") == 65'536);
  CHECK(parse_size("2500") == 2'500);
  CHECK(parse_size("10MiB") == 10'485'760);
  CHECK(parse_rate("100Gb/s") == 100'000'000'000);
  CHECK(parse_rate("2.5Gb/s") == 2'500'000'000);
  CHECK_FALSE(parse_rate("100"));
  CHECK_FALSE(parse_size("1.5B"));
}

TEST_CASE("a duration's text reads back as the same duration") {
  for (const std::int64_t ns : {0, 1, 999, 1'000, 4'096, 655'360'000, 1'000'000'001}) {
    CHECK(parse_duration(duration_text(Duration(ns))) == Duration(ns));
  }
  CHECK(duration_text(Duration(655'360'000)) == "655.36ms");
  CHECK(duration_text(Duration(-1'500)) == "-1.5us");
}
