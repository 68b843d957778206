// A TOML table of a scenario file whose keys are taken one by one. Internal to sim/scenario/.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/near_miss.h"
#include "base/toml.h"
#include "sim/scenario/words.h"

namespace verbena::sim {

[[nodiscard]] Place place_of(const toml::node& node);

/// Keys that nobody took are errors. What is wrong is a ScenarioError.
class Table {
 public:
  explicit Table(const toml::table& table) : table_(table) {}

  [[nodiscard]] Place place() const { return place_of(table_); }
  [[nodiscard]] const toml::table& raw() const { return table_; }

  const toml::node* take(std::string_view key);
  /// A string or a whole number, as it would be written.
  std::optional<Word> word(std::string_view key);
  Word required_word(std::string_view key);
  template <class Number>
  void number(std::string_view key, std::uint64_t max, Number& target) {
    if (const auto value = word(key)) {
      target = static_cast<Number>(number_of(*value, max));
    }
  }
  bool boolean(std::string_view key, bool otherwise);
  std::optional<std::vector<Word>> words(std::string_view key);
  std::optional<std::vector<Line>> lines(std::string_view key);
  std::vector<Table> tables(std::string_view key);
  std::optional<Table> table(std::string_view key);
  /// Everything must have been taken.
  void end() const;

 private:
  const toml::table& table_;
  std::vector<std::string_view> known_;
};

/// Which of the things that have a name is meant; `what` they are is for the error.
template <class Specs>
std::size_t index_of(const Specs& specs, const Word& name, std::string_view what) {
  std::vector<std::string_view> known;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == name.text) {
      return i;
    }
    known.push_back(specs[i].name);
  }
  fail(name,
       fmt::format("No {} is named '{}'.{}", what, name.text, did_you_mean(name.text, known)));
}

}  // namespace verbena::sim
