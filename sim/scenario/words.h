// The lines of which a scenario's story and expectations consist: words, key=value and flags, each
// with its place in the file.
//
//     "client write 1 from=source to=target length=2500 solicited"
//       └──┬──────────┘ └──────────────┬──────────────┘ └── flag
//        words                     key=value
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace verbena::sim {

/// A place in a scenario file, counted from 1.
struct Place {
  std::uint32_t line = 1;
  std::uint32_t column = 1;
};

/// What is wrong with a scenario, and where. Thrown inside the reader and the compiler of stories,
/// where nearly every call can fail; load_scenarios() and run_scenario() make values of it.
struct ScenarioError {
  Place place;
  std::string message;
};

struct Word {
  std::string text;
  Place place;
};

[[noreturn]] void fail(Place place, std::string message);
[[noreturn]] void fail(const Word& word, std::string message);

// Values of a word, or a ScenarioError that says what was wanted.
[[nodiscard]] std::uint64_t number_of(const Word& word, std::uint64_t max);
[[nodiscard]] Duration duration_of(const Word& word);
[[nodiscard]] std::uint64_t size_of(const Word& word, std::uint64_t max);

/// One line. Words are taken from the front; key=value and flags by name, in any order; what is
/// left over at the end is an error that suggests what was meant.
class Line {
 public:
  /// `place` is that of the text's first character.
  Line(std::string_view text, Place place);

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] Place place() const { return place_; }

  /// The next word, which is neither key=value nor taken; `wanted` says in an error what it should
  /// have been.
  Word next(std::string_view wanted);
  /// The same, if there is one.
  std::optional<Word> try_next();
  /// The value of a key, or nothing.
  std::optional<Word> take(std::string_view key);
  Word require(std::string_view key);
  /// Whether that word stands somewhere behind.
  bool flag(std::string_view name);
  /// Everything must have been taken.
  void end() const;

 private:
  struct Item {
    Word word;
    /// Of key=value: where the value begins in the word; 0 if it has none.
    std::size_t value_at = 0;
    bool taken = false;
  };

  std::string text_;
  Place place_;
  std::vector<Item> items_;
  std::vector<std::string> asked_;
};

}  // namespace verbena::sim
