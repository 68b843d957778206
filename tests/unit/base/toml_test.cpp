// toml++ with our repairs: hostile text is an error at a place, never undefined behaviour.
#include "base/toml.h"

#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>

namespace verbena {
namespace {

TEST_CASE("a document parses, and its values have places", "[toml]") {
  const toml::parse_result parsed = toml::parse("a = 1\nb = \"x\"\n");
  REQUIRE(parsed);
  REQUIRE(parsed.table()["a"].value<int>() == 1);
  REQUIRE(parsed.table()["b"].node()->source().begin.line == 2);
}

TEST_CASE("characters that toml++'s table of blanks forgets are errors outside of strings",
          "[toml]") {
  // U+FB26, U+FCBF and U+FEFE: the first and the last of them, and the one that the fuzzer met.
  for (const std::string_view character : {"\xEF\xAC\xA6", "\xEF\xB2\xBF", "\xEF\xBB\xBE"}) {
    const std::string text = "a = 1 " + std::string(character) + "\n";
    const toml::parse_result parsed = toml::parse(text);
    REQUIRE_FALSE(parsed);
    REQUIRE(parsed.error().source().begin.line == 1);
    const std::string quoted = "a = \"" + std::string(character) + "\"\n";
    REQUIRE(toml::parse(quoted));
  }
}

TEST_CASE("text that is cut off or malformed is an error, not an assertion", "[toml]") {
  for (const std::string_view text :
       {"a", "a =", "a = [", "a = {", "[", "[[a]", "a = \"", "a.", "a.=1", "a = 1979-", "a = 0x",
        "a = '''", "\xFF", "\xEF\xBB"}) {
    REQUIRE_FALSE(toml::parse(text));
  }
}

}  // namespace
}  // namespace verbena
